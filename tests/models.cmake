grapevine_test(models
  SOURCES
    models/tools.cpp models/analytic_test.cpp models/problems_test.cpp models/partition_test.cpp
    models/quadratics_test.cpp
    models/batches_test.cpp models/walk_test.cpp models/data_test.cpp models/text_test.cpp
    models/real_data_test.cpp models/files_test.cpp models/tensor_file_test.cpp models/table_test.cpp models/own_data_test.cpp models/guest_test.cpp
    models/torch_libraries_test.cpp
  USES grapevine_models ZLIB::ZLIB LibLZMA::LibLZMA)

# With LibTorch: the module is loaded as the program does, and checked against torch::nn.
if(TARGET Torch::cpu)
  grapevine_test(models_network
    SOURCES models/tools.cpp models/network_test.cpp models/language_test.cpp
      models/logistic_test.cpp models/torch_objective_test.cpp
    USES grapevine_torch grapevine_models ZLIB::ZLIB LibLZMA::LibLZMA Torch::cpu)
  add_dependencies(models_network_test grapevine-network)
  # These stand for a driver and for LibTorch's half for GPUs, and say when they are opened.
  add_library(fake_driver SHARED models/fake_library.cpp)
  add_library(fake_cuda_half SHARED models/fake_library.cpp)
  set_target_properties(fake_driver PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/cuda_half/driver)
  set_target_properties(fake_cuda_half PROPERTIES OUTPUT_NAME torch_cuda
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/cuda_half/torch)
  target_compile_definitions(fake_driver PRIVATE WHAT="a driver")
  target_compile_definitions(fake_cuda_half PRIVATE WHAT="LibTorch's half for GPUs")
  add_dependencies(models_network_test fake_driver fake_cuda_half)
  target_compile_definitions(models_network_test
    PRIVATE GRAPEVINE_TORCH_CUDA=$<TARGET_EXISTS:Torch::cuda>)

  # The bare loops are a library: whoever measures an overhead needs the same base.
  add_library(grapevine_bare_loops STATIC EXCLUDE_FROM_ALL
    bench/bare_loops.cpp bench/bare_gpt.cpp)
  target_link_libraries(grapevine_bare_loops PUBLIC grapevine_models Torch::cpu
    PRIVATE grapevine_options)
  target_compile_options(grapevine_bare_loops PRIVATE -O3)
  grapevine_benchmark(training SOURCES bench/training_bench.cpp
    USES grapevine_actors grapevine_bare_loops)
  add_dependencies(training_bench grapevine-network)

  # The same on a GPU, and what becomes of a process that loses its GPU.
  add_library(grapevine_bare_resnet STATIC EXCLUDE_FROM_ALL bench/bare_resnet.cpp)
  target_link_libraries(grapevine_bare_resnet PUBLIC grapevine_models grapevine_torch Torch::cpu
    PRIVATE grapevine_options)
  grapevine_benchmark(gpu_training SOURCES bench/gpu_training_bench.cpp
    USES grapevine_actors grapevine_bare_resnet)
  add_dependencies(gpu_training_bench grapevine-network)
  if(CMAKE_CUDA_COMPILER_LOADED)
    add_library(grapevine_gpu_lost STATIC EXCLUDE_FROM_ALL bench/gpu_lost.cu)
    target_include_directories(grapevine_gpu_lost PRIVATE ${PROJECT_SOURCE_DIR})
    grapevine_benchmark(gpu_lost SOURCES bench/gpu_lost_bench.cpp
      USES grapevine_actors grapevine_torch grapevine_gpu_lost Torch::cpu)
  endif()
endif()
