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

# cuda_device.cu on a CUDA that is none.
if(CMAKE_CUDA_COMPILER_LOADED)
  grapevine_test(cuda_device
    SOURCES device/cuda_device_test.cpp device/cuda_device_as_cpp.cpp device/fake_cuda.cpp
    USES Threads::Threads)
  target_include_directories(cuda_device_test SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
endif()
