#include "tests/bench/gpu_lost.hpp"

namespace grapevine::bench {
namespace {

__global__ void write_to(int* address) { *address = 1; }

}  // namespace

void write_to_an_illegal_address(int gpu) {
  cudaSetDevice(gpu);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  write_to<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(8));
}

}  // namespace grapevine::bench
