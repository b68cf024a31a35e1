// The GPU settings of LibTorch: whether it can use one, and which stream it uses.
#pragma once
#include <c10/core/StreamGuard.h>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Error (user): this LibTorch has no CUDA, or there is no such GPU; one line.
Status find_gpu(int number);

/// For all later GPU work of the process: fp32 convolutions may round their factors to 10 bits.
void allow_tf32(bool);

/// Returns LibTorch's cached GPU memory to the driver. Waits for running work.
void give_back_unused();

/// While it exists, this thread queues its work on `stream`, a cudaStream_t of that GPU. REQUIRES:
/// find_gpu() succeeded.
class OnStream {
 public:
  OnStream(int gpu, void* stream);

 private:
  c10::StreamGuard guard_;
};

}  // namespace grapevine
