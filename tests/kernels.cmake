grapevine_test(kernels
  SOURCES kernels/base_test.cpp kernels/memory_test.cpp kernels/ops_test.cpp
    kernels/same_bits_test.cpp kernels/invariants_test.cpp kernels/cuda_test.cpp
    kernels/low_rank_test.cpp
    kernels/compressor_test.cpp kernels/compressor_bytes_test.cpp kernels/moniqua_test.cpp
    kernels/checksum_test.cpp kernels/write_file_test.cpp kernels/printable_test.cpp
  USES grapevine_kernels)
# What nvcc makes of a pass, for a test to read.
if(CMAKE_CUDA_COMPILER_LOADED)
  add_library(kernels_stores OBJECT kernels/stores.cu)
  set_target_properties(kernels_stores PROPERTIES CUDA_PTX_COMPILATION ON
    CUDA_ARCHITECTURES 90-virtual)
  target_include_directories(kernels_stores PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(kernels_stores PRIVATE --fmad=false --Werror=all-warnings)
  set_property(SOURCE kernels/cuda_test.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    GRAPEVINE_STORES="$<TARGET_OBJECTS:kernels_stores>")
  add_dependencies(kernels_test kernels_stores)
  target_compile_definitions(kernels_test PRIVATE GRAPEVINE_CUDA)  # for passes/launch.hpp
endif()

# The bare loops get what this machine has: what the fused passes are measured against.
grapevine_benchmark(kernels SOURCES bench/kernels_bench.cpp bench/kernels_bare.cpp
  bench/kernels_forms.cpp
  USES grapevine_kernels)
set_property(SOURCE bench/kernels_bare.cpp bench/kernels_forms.cpp APPEND PROPERTY COMPILE_OPTIONS
  -O3 -march=native -fno-tree-loop-distribute-patterns)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_property(SOURCE bench/kernels_bare.cpp bench/kernels_forms.cpp
    APPEND PROPERTY COMPILE_OPTIONS -mprefer-vector-width=512)
endif()
grapevine_benchmark(compressors SOURCES bench/compressors_bench.cpp USES grapevine_kernels)
grapevine_benchmark(kernels_cuda SOURCES bench/kernels_cuda_bench.cpp USES grapevine_kernels)

# What the design of the GPU's side takes for granted, asked of a real one.
if(CMAKE_CUDA_COMPILER_LOADED)
  set(facts bench/gpu_facts)
  add_executable(gpu_facts ${facts}/main.cpp ${facts}/processes.cpp ${facts}/tools.cpp
    ${facts}/work.cu ${facts}/order.cpp ${facts}/learning.cpp ${facts}/passes.cpp
    ${facts}/memory.cpp ${facts}/sharing.cpp ${facts}/neighbours.cpp)
  set_property(SOURCE ${facts}/work.cu APPEND PROPERTY COMPILE_OPTIONS --Werror=all-warnings)
  target_include_directories(gpu_facts PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(gpu_facts PRIVATE CUDA::cudart_static Threads::Threads grapevine_options)
  if(NCCL_LIBRARY AND NCCL_INCLUDE)
    target_sources(gpu_facts PRIVATE ${facts}/nccl.cpp)
    target_compile_definitions(gpu_facts PRIVATE GRAPEVINE_NCCL)
    target_include_directories(gpu_facts SYSTEM PRIVATE ${NCCL_INCLUDE})
    target_link_libraries(gpu_facts PRIVATE ${NCCL_LIBRARY})
  endif()
endif()

# The command that asks and measures all of that, without a GPU.
add_test(NAME gpu_steps COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/bench/gpu_steps_test.py)
