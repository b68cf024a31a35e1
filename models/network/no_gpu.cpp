// gpu.hpp without CUDA in LibTorch, or without the toolkit.
#include "kernels/base/check.hpp"
#include "models/network/gpu.hpp"

namespace grapevine {

Status find_gpu(int) {
  return user_error("networks compute on the CPU alone in a build without CUDA's toolkit");
}

void allow_tf32(bool) {}

void give_back_unused() {}

OnStream::OnStream(int, void*) : guard_(c10::Stream(c10::Stream::DEFAULT, c10::Device("cpu"))) {
  constexpr bool kHasGpu = false;
  GV_CHECK((kHasGpu));
}

}  // namespace grapevine
