# The adversary: a Device that does all that a GPU may do, on the CPU and from a seed.
add_library(grapevine_adversary STATIC device/judge.cpp device/adverse_world.cpp
  device/adversary.cpp device/nccl_world.cpp)
target_link_libraries(grapevine_adversary PUBLIC grapevine_kernels PRIVATE grapevine_options)

grapevine_test(device
  SOURCES device/adversary_test.cpp device/fence_test.cpp device/footprints_test.cpp
    device/passes_test.cpp device/owner.cpp device/order_test.cpp device/threaded.cpp
    device/threaded_test.cpp device/workspace_test.cpp device/neighbour.cpp
    device/lent_snapshots_test.cpp device/fake_nccl.cpp device/nccl_edge_test.cpp
    device/nccl_test.cpp
  USES grapevine_adversary)
if(CMAKE_CUDA_COMPILER_LOADED)
  target_compile_definitions(device_test PRIVATE GRAPEVINE_CUDA)  # for passes/launch.hpp
endif()

# cuda_device.cu on a CUDA that is none.
if(CUDAToolkit_FOUND)
  grapevine_test(cuda_device
    SOURCES device/cuda_device_test.cpp device/cuda_device_as_cpp.cpp device/fake_cuda.cpp
    USES Threads::Threads ${CMAKE_DL_LIBS})
  add_library(fake_management SHARED device/fake_management.cpp)
  set_target_properties(fake_management PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX .so.1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/management)
  set_property(TARGET cuda_device_test PROPERTY BUILD_RPATH ${CMAKE_BINARY_DIR}/tests/management)
  add_dependencies(cuda_device_test fake_management)
  set_target_properties(cuda_device_test PROPERTIES UNITY_BUILD OFF)  # a file is the device's source
  target_include_directories(cuda_device_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
endif()
