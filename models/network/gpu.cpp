#include "models/network/gpu.hpp"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace grapevine {

Status find_gpu(int number) {
  if (!at::hasCUDA())
    return user_error(
        "LibTorch computes on the CPU alone here, accepted for a GPU: an installed PyTorch of the "
        "same version with CUDA");
  const int count = c10::cuda::device_count();
  if (number >= count)
    return user_error("LibTorch finds no GPU " + std::to_string(number) + " among " +
                      std::to_string(count));
  at::globalContext().lazyInitDevice(at::kCUDA);
  return Done{};
}

void give_back_unused() { c10::cuda::CUDACachingAllocator::emptyCache(); }

OnStream::OnStream(int gpu, void* stream)
    : guard_(c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream),
                                              static_cast<c10::DeviceIndex>(gpu))
                 .unwrap()) {}

}  // namespace grapevine
