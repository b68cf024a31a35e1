// gpu.hpp where LibTorch has no CUDA.
#include "kernels/check.hpp"
#include "models/network/gpu.hpp"

namespace grapevine {

Status find_gpu(int) { return user_error("this LibTorch computes on the CPU alone"); }

OnStream::OnStream(int, void*) : guard_(c10::Stream(c10::Stream::DEFAULT, c10::Device("cpu"))) {
  constexpr bool kHasGpu = false;
  GV_CHECK((kHasGpu));
}

}  // namespace grapevine
