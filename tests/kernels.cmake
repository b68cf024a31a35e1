grapevine_test(kernels
  SOURCES kernels_base_test.cpp kernels_memory_test.cpp
  USES grapevine_kernels)
