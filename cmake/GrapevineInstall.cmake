# cmake --install: the program, the libraries, the headers and a package that find_package(Grapevine)
# finds. The libraries are grapevine::kernels, ::topologies, ::messages, ::models and ::actors; who
# links the last has them all. LibTorch stays where it is: the network module remembers its folder.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Grapevine)
set(rooms kernels topologies messages models actors)

set(interface_links "")
foreach(room ${rooms})
  set_target_properties(grapevine_${room} PROPERTIES EXPORT_NAME ${room})
  install(TARGETS grapevine_${room} EXPORT GrapevineTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/grapevine FILES_MATCHING PATTERN "*.hpp")
  get_target_property(links grapevine_${room} INTERFACE_LINK_LIBRARIES)
  list(APPEND interface_links ${links})
endforeach()
install(EXPORT GrapevineTargets NAMESPACE grapevine:: DESTINATION ${package_folder})
install(TARGETS grapevine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET grapevine-network)
  # The loader looks in ../lib/grapevine from the program, whatever the libraries' folder is called.
  install(TARGETS grapevine-network LIBRARY DESTINATION lib/grapevine)
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
