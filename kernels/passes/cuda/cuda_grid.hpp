// The division of the CUDA versions into threads, and their sums, which have the CPU's bits.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/passes/passes.hpp"

namespace grapevine::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 8;  // 2048 threads: a full multiprocessor
constexpr int kAhead = 8;               // numbers that a thread loads before it uses the first

cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

/// The count of the first current device. It affects the division of a pass, never its result.
int processors() {
  static const int count = [] {
    int device = 0;
    int found = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return std::max(1, found);
  }();
  return count;
}

unsigned blocks_for(size_t threads) {
  const size_t wanted = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(
      std::clamp<size_t>(wanted, 1, static_cast<size_t>(processors()) * kBlocksPerProcessor));
}

/// Processes elements [head, head + N * packs) N at a time, and the few before and after one at a
/// time.
template <int N, class Pass>
__global__ void run_pass(const Pass pass, size_t head, size_t packs, size_t size) {
  const size_t me = blockIdx.x * size_t{kThreads} + threadIdx.x;
  const size_t all = gridDim.x * size_t{kThreads};
  for (size_t i = me; i < packs; i += all) pass.template at<N>(head + i * N);
  const size_t tail = head + packs * N;
  for (size_t i = me; i < head; i += all) pass.template at<1>(i);
  for (size_t i = tail + me; i < size; i += all) pass.template at<1>(i);
}

/// Sums blocks of kReductionBlock elements; as many neighbouring threads as lanes sum one block.
template <class Term>
__global__ void sum_blocks(const Term term, size_t size, size_t blocks, double* partial) {
  constexpr unsigned kLanes = kReductionLanes;
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned mates = ((1u << kLanes) - 1) << (threadIdx.x % warpSize - lane);
  const size_t all = gridDim.x * size_t{kThreads} / kLanes;
  size_t block = (blockIdx.x * size_t{kThreads} + threadIdx.x) / kLanes;
  for (; block < blocks; block += all) {
    const size_t first = block * kReductionBlock;
    const size_t last = min(size, first + kReductionBlock);
    double sum = 0;
    size_t i = first + lane;
    for (; i + (kAhead - 1) * kLanes < last; i += kAhead * kLanes) {
      double terms[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) terms[k] = term(i + k * kLanes);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) sum += terms[k];
    }
    for (; i < last; i += kLanes) sum += term(i);
    for (unsigned width = kLanes / 2; width > 0; width /= 2) {
      sum += __shfl_down_sync(mates, sum, width, kLanes);
    }
    if (lane == 0) partial[block] = sum;
  }
}

/// Queues the sums of all blocks of `size` elements into `partial`; returns the number of blocks.
template <class Term>
size_t queue_block_sums(const Term& term, size_t size, double* partial, cudaStream_t stream) {
  const size_t blocks = (size + kReductionBlock - 1) / kReductionBlock;
  if (blocks > 0) {
    sum_blocks<<<blocks_for(blocks * kReductionLanes), kThreads, 0, stream>>>(term, size, blocks,
                                                                              partial);
  }
  return blocks;
}

}  // namespace
}  // namespace grapevine::cuda
