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
constexpr int kSumAhead = 16;           // of a sum: its threads are few, one per lane of a block
constexpr int kSumThreads = 128;  // few, so that short vectors use all multiprocessors

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

/// Adds kSumAhead terms of a lane, from term i on. All are loaded before the first is used. Not
/// whole: a term behind `last` is 0, which changes no sum.
template <bool kWhole, class Term>
__device__ void add_terms(const Term& term, size_t i, size_t last, double& sum) {
  typename Term::Loaded loaded[kSumAhead];
#pragma unroll
  for (int k = 0; k < kSumAhead; ++k) {
    const size_t at = i + k * kReductionLanes;
    loaded[k] = kWhole || at < last ? term.load(at) : typename Term::Loaded{};
  }
#pragma unroll
  for (int k = 0; k < kSumAhead; ++k) sum += term.value(loaded[k]);
}

/// The sum of the block [first, last), by a warp: a lane each. Its first thread gets it.
template <class Term>
__device__ double sum_of_block(const Term& term, size_t first, size_t last) {
  static_assert(kReductionLanes == 32, "a warp");
  constexpr size_t kStep = kSumAhead * kReductionLanes;
  double sum = 0;
  size_t i = first + threadIdx.x % kReductionLanes;
  for (; i + kStep <= last; i += kStep) add_terms<true>(term, i, last, sum);
  if (i < last) add_terms<false>(term, i, last, sum);
  for (unsigned width = kReductionLanes / 2; width > 0; width /= 2) {
    sum += __shfl_down_sync(~0u, sum, width);
  }
  return sum;
}

template <class Term>
__global__ void __launch_bounds__(kSumThreads)
    sum_blocks(const Term term, size_t size, size_t blocks, double* partial) {
  const size_t all = gridDim.x * size_t{kSumThreads} / kReductionLanes;
  size_t block = (blockIdx.x * size_t{kSumThreads} + threadIdx.x) / kReductionLanes;
  for (; block < blocks; block += all) {
    const size_t first = block * kReductionBlock;
    const double sum = sum_of_block(term, first, min(size, first + kReductionBlock));
    if (threadIdx.x % kReductionLanes == 0) partial[block] = sum;
  }
}

struct Number {
  using Loaded = double;
  const double* at;
  __device__ double load(size_t i) const { return at[i]; }
  __device__ double value(double number) const { return number; }
};

/// The total of the sums of blocks, for the first thread of a grid of one block of kAddThreads.
constexpr int kAddThreads = 256;
__device__ double total_of(const double* partial, size_t blocks) {
  constexpr unsigned kRows = kAddThreads / kReductionLanes;  // at a time
  __shared__ double rows[kRows];
  double total = 0;
  for (size_t at = 0; at < blocks; at += kRows * kReductionBlock) {
    const unsigned row = threadIdx.x / kReductionLanes;
    const size_t first = min(blocks, at + row * kReductionBlock);
    const double sum =
        sum_of_block(Number{partial}, first, min(blocks, first + kReductionBlock));
    if (threadIdx.x % kReductionLanes == 0) rows[row] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned k = 0; k < kRows; ++k) total += rows[k];
    }
    __syncthreads();
  }
  return total;
}

/// Queues the sums of all blocks of `size` elements into `partial`; returns the number of blocks.
template <class Term>
size_t queue_block_sums(const Term& term, size_t size, double* partial, cudaStream_t stream) {
  const size_t blocks = (size + kReductionBlock - 1) / kReductionBlock;
  if (blocks > 0) {
    const size_t wanted = (blocks * kReductionLanes + kSumThreads - 1) / kSumThreads;
    const size_t most = static_cast<size_t>(processors()) * 2048 / kSumThreads;
    sum_blocks<<<static_cast<unsigned>(std::min(wanted, most)), kSumThreads, 0, stream>>>(
        term, size, blocks, partial);
  }
  return blocks;
}

}  // namespace
}  // namespace grapevine::cuda
