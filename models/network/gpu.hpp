// What LibTorch has to be told of a GPU: whether it can use one, and which stream is ours.
#pragma once
#include <c10/core/StreamGuard.h>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Error (user): this LibTorch has no CUDA, or no such GPU, in one line.
Status find_gpu(int number);

/// Of all that the process computes on GPUs from now on: convolutions in fp32 may round what they
/// multiply to 10 bits.
void allow_tf32(bool);

/// What LibTorch keeps of GPUs' memory for later goes back to the driver. Waits for work in flight.
void give_back_unused();

/// While it lives, what this thread queues goes to `stream`, a cudaStream_t of that GPU.
/// REQUIRES: find_gpu() went well.
class OnStream {
 public:
  OnStream(int gpu, void* stream);

 private:
  c10::StreamGuard guard_;
};

}  // namespace grapevine
