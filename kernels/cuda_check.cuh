// GV_CUDA(call): a CUDA runtime call that must succeed; if not, the process ends with the runtime's
// words.
#pragma once
#include <cuda_runtime.h>

#include "kernels/check.hpp"

#define GV_CUDA(call)                                                                            \
  do {                                                                                           \
    const cudaError_t gv_status = (call);                                                        \
    if (gv_status != cudaSuccess) {                                                              \
      ::grapevine::check_detail::fail(__FILE__, __LINE__, #call, cudaGetErrorString(gv_status)); \
    }                                                                                            \
  } while (false)
