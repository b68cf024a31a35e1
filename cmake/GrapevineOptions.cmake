# The language, the warnings, the sanitizers: what every target of ours is built with.
option(GRAPEVINE_TESTS "build tests, benchmarks and examples" ON)
option(BUILD_SHARED_LIBS "build the libraries as shared ones" OFF)
option(GRAPEVINE_WERROR "treat warnings as errors" OFF)
set(GRAPEVINE_SANITIZE "" CACHE STRING "sanitizers, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
find_program(GRAPEVINE_CCACHE ccache)
if(GRAPEVINE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GRAPEVINE_CCACHE})
endif()

add_library(grapevine_options INTERFACE)
target_compile_options(grapevine_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>)
if(GRAPEVINE_WERROR)
  target_compile_options(grapevine_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(GRAPEVINE_SANITIZE)
  target_compile_options(grapevine_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GRAPEVINE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all>)
  target_link_options(grapevine_options INTERFACE -fsanitize=${GRAPEVINE_SANITIZE})
endif()

# What leaves this machine names no folder of it: a broken invariant tells its file from the root on.
set(map_root -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${CMAKE_BINARY_DIR}/=)
add_library(grapevine_shipped INTERFACE)
target_compile_options(grapevine_shipped INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${map_root}>"
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)

# grapevine_unity(TARGET MOST): in a unity build (CMAKE_UNITY_BUILD, which the release preset sets) the sources of a
# folder are compiled together, at most MOST at once, and parse the headers that they share once. A source that has
# options of its own is compiled by itself.
function(grapevine_unity target most)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  set(groups "")
  foreach(source ${sources})
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    list(APPEND groups ${group})
    list(APPEND ${group} ${source})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group ${groups})
    list(LENGTH ${group} files)
    math(EXPR units "(${files} + ${most} - 1) / ${most}")
    set(index 0)
    foreach(source ${${group}})
      math(EXPR unit "${index} * ${units} / ${files}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${unit})
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
endfunction()

# grapevine_library(NAME SOURCES ... [USES ...] [PRIVATE_USES ...])
function(grapevine_library name)
  cmake_parse_arguments(A "" "" "SOURCES;USES;PRIVATE_USES" ${ARGN})
  add_library(${name} ${A_SOURCES})  # static, or shared with BUILD_SHARED_LIBS, from the same objects
  grapevine_unity(${name} 16)
  set_target_properties(${name} PROPERTIES DEFINE_SYMBOL "")
  target_compile_features(${name} INTERFACE cxx_std_20)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${name} PUBLIC ${A_USES}
    PRIVATE ${A_PRIVATE_USES} $<BUILD_INTERFACE:grapevine_options> $<BUILD_INTERFACE:grapevine_shipped>)
endfunction()
