#include "models/network/gpu.hpp"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <string>

namespace grapevine {
namespace {

/// LibTorch's CUDA library registers itself when it is opened. It is found only if it was opened
/// before the first tensor needed it. So it is opened when this code is loaded and a driver exists.
/// This decides at run time, not at build time, whether this LibTorch has CUDA. Returns why not;
/// empty: success.
std::string open_cuda_half() {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return "no driver";
  if (dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_LOCAL) != nullptr) return "";
  const char* const why = dlerror();
  return why != nullptr ? why : "no reason given";
}

const std::string kWhyNone = open_cuda_half();

}  // namespace

Status find_gpu(int number) {
  if (!at::hasCUDA())
    return user_error("LibTorch computes on the CPU alone here (" + kWhyNone +
                      "), accepted for a GPU: an installed PyTorch of the same version with CUDA");
  const int count = c10::cuda::device_count();
  if (number >= count)
    return user_error("LibTorch finds no GPU " + std::to_string(number) + " among " +
                      std::to_string(count));
  at::globalContext().lazyInitDevice(at::kCUDA);
  return Done{};
}

void allow_tf32(bool is_allowed) { at::globalContext().setAllowTF32CuDNN(is_allowed); }

void give_back_unused() { c10::cuda::CUDACachingAllocator::emptyCache(); }

OnStream::OnStream(int gpu, void* stream)
    : guard_(c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream),
                                              static_cast<c10::DeviceIndex>(gpu))
                 .unwrap()) {}

}  // namespace grapevine
