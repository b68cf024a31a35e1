grapevine_test(messages 
  SOURCES messages/codec_test.cpp messages/parcel_test.cpp messages/control_test.cpp messages/setting_lines_test.cpp
    messages/bounds_test.cpp messages/guest_test.cpp messages/facts_test.cpp
  USES grapevine_messages CapnProto::capnp)
target_include_directories(messages_test SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
grapevine_benchmark(codec SOURCES bench/codec_bench.cpp USES grapevine_messages)

# The fuzz targets need clang's libFuzzer, so they are compiled by clang++ beside a build that g++
# makes: a codec, the generated schemas and the harness in one command. `ninja codec_fuzz
# control_fuzz guest_fuzz codec_seeds` builds them, `./test fuzz` runs them.
find_program(GRAPEVINE_CLANGXX NAMES clang++ clang++-14)
set(codec_fuzz_flags -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined
  -fno-sanitize-recover=all -Wno-overloaded-shift-op-parentheses)  # GV_CHECK is such a shift
if(GRAPEVINE_CLANGXX AND NOT DEFINED GRAPEVINE_LIBFUZZER)
  set(probe ${CMAKE_BINARY_DIR}/libfuzzer_probe.cpp)
  file(WRITE ${probe} "#include <cstddef>\n#include <cstdint>\n"
    "extern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }\n")
  execute_process(
    COMMAND ${GRAPEVINE_CLANGXX} ${codec_fuzz_flags} ${probe} -o ${probe}.out
    RESULT_VARIABLE probe_status OUTPUT_QUIET ERROR_QUIET)
  if(probe_status EQUAL 0)
    set(GRAPEVINE_LIBFUZZER ON CACHE INTERNAL "")
  endif()
endif()
if(GRAPEVINE_LIBFUZZER)
  add_executable(codec_seeds EXCLUDE_FROM_ALL fuzz/codec_seeds.cpp messages/malicious_member.cpp)
  target_link_libraries(codec_seeds PRIVATE grapevine_messages grapevine_options)
  set(generated ${CMAKE_BINARY_DIR}/generated)
  set(messages ${PROJECT_SOURCE_DIR}/messages)
  foreach(target codec control guest)
    set(program ${CMAKE_BINARY_DIR}/bin/${target}_fuzz)
    set(sources ${CMAKE_CURRENT_LIST_DIR}/fuzz/${target}_fuzz.cpp ${messages}/codec.cpp)
    if(target STREQUAL "control")
      list(APPEND sources ${messages}/control_decode.cpp ${messages}/control_encode.cpp
        ${messages}/control_validate.cpp)
    elseif(target STREQUAL "guest")
      list(APPEND sources ${messages}/guest_codec.cpp)
    endif()
    add_custom_command(OUTPUT ${program}
      COMMAND ${GRAPEVINE_CLANGXX} ${codec_fuzz_flags} -I${PROJECT_SOURCE_DIR} -isystem ${generated}
        ${sources} ${generated}/messages/wire.capnp.c++ ${generated}/messages/control.capnp.c++
        ${generated}/messages/guest.capnp.c++
        -lcapnp -lkj -lfmt -o ${program}
      # The library stands for the generated schemas, which it is compiled from.
      DEPENDS grapevine_messages ${sources} ${messages}/codec.hpp ${messages}/control_codec.hpp
        ${messages}/guest.hpp ${messages}/guest_codec.hpp ${messages}/control.hpp ${messages}/frame.hpp ${messages}/parcel.hpp
      VERBATIM)
    add_custom_target(${target}_fuzz DEPENDS ${program})
  endforeach()
endif()
grapevine_found(libFuzzer "${GRAPEVINE_LIBFUZZER}" "no fuzz target")
