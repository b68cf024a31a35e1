# cmake --install: the program, the libraries, the public headers, and a package that find_package(Grapevine) and
# pkg-config find. Whoever links grapevine::grapevine has all libraries. Nothing names the build, so the tree may
# be moved; but LibTorch stays where it is, and the network module remembers its folder.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Grapevine)
set(libraries checkpoint actors models messages topologies kernels)  # as a linker wants them

add_library(grapevine_all INTERFACE)
target_link_libraries(grapevine_all INTERFACE grapevine_checkpoint)
set_target_properties(grapevine_all PROPERTIES EXPORT_NAME grapevine)
install(TARGETS grapevine_all EXPORT GrapevineTargets)

set(interface_links "")
set(grapevine_archives "")
foreach(library ${libraries})
  set_target_properties(grapevine_${library} PROPERTIES EXPORT_NAME ${library}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN")
  install(TARGETS grapevine_${library} EXPORT GrapevineTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  get_target_property(links grapevine_${library} INTERFACE_LINK_LIBRARIES)
  list(APPEND interface_links ${links})
  string(APPEND grapevine_archives " -lgrapevine_${library}")
endforeach()
set(headers_stage ${CMAKE_BINARY_DIR}/public_headers)
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DSTAGE=${headers_stage}
  -P ${PROJECT_SOURCE_DIR}/cmake/public_headers.cmake COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${headers_stage}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/grapevine)
install(EXPORT GrapevineTargets NAMESPACE grapevine:: DESTINATION ${package_folder})
set_target_properties(grapevine PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS grapevine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET grapevine-network)
  # The loader looks in ../lib/grapevine from the program, whatever the libraries' folder is called.
  set_target_properties(grapevine-network PROPERTIES
    INSTALL_RPATH "$ORIGIN/..;$ORIGIN/../../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS grapevine-network LIBRARY DESTINATION lib/grapevine)
endif()

# The wheel (pyproject.toml): the program beside its network module, in the Python package that tells where they are.
add_custom_target(grapevine_wheel DEPENDS grapevine)
install(TARGETS grapevine RUNTIME DESTINATION grapevine/bin COMPONENT wheel EXCLUDE_FROM_ALL)
if(TARGET grapevine-network)
  add_dependencies(grapevine_wheel grapevine-network)
  install(TARGETS grapevine-network LIBRARY DESTINATION grapevine/bin COMPONENT wheel EXCLUDE_FROM_ALL)
endif()

if(TARGET grapevine_torch)  # a component: it wants LibTorch, which everybody has somewhere else
  set_target_properties(grapevine_torch PROPERTIES EXPORT_NAME torch
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN")
  install(TARGETS grapevine_torch EXPORT GrapevineTorchTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT GrapevineTorchTargets NAMESPACE grapevine:: DESTINATION ${package_folder})
endif()

# The package finds what the libraries were linked with, and nothing else.
foreach(dependency "CapnProto::" "spdlog::" "fmt::" "OpenSSL::" "tomlplusplus::" "ZLIB::" "LibLZMA::")
  string(REPLACE "::" "" name ${dependency})
  string(FIND "${interface_links}" "${dependency}" position)
  if(NOT position EQUAL -1)
    list(APPEND grapevine_packages ${name})
  endif()
endforeach()
if(CMAKE_CUDA_COMPILER_LOADED)
  set(grapevine_uses_cuda ON)
  list(APPEND grapevine_packages CUDAToolkit)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/GrapevineConfig.cmake.in
  ${CMAKE_BINARY_DIR}/GrapevineConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/GrapevineConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/GrapevineConfig.cmake
  ${CMAKE_BINARY_DIR}/GrapevineConfigVersion.cmake DESTINATION ${package_folder})

# pkg-config: what shared libraries need besides is private, what archives need is not.
set(grapevine_needs "capnp kj-tls kj-async kj openssl zlib liblzma libzip fmt libxxhash")
set(grapevine_links "-lcaf_core -lpthread -ldl")
if(CMAKE_CUDA_COMPILER_LOADED)
  string(APPEND grapevine_links " -lcudart_static -lrt")
endif()
set(grapevine_kept "")
if(BUILD_SHARED_LIBS)
  set(grapevine_kept ".private")
endif()
file(RELATIVE_PATH grapevine_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/grapevine.pc.in ${CMAKE_BINARY_DIR}/grapevine.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/grapevine.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
