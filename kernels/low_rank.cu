// The CUDA twins of the low-rank passes. Simple: a block per row, a thread per column.
#include <algorithm>

#include "kernels/cuda_check.cuh"
#include "kernels/elements_low_rank.hpp"
#include "kernels/passes.hpp"

namespace grapevine::cuda {
namespace {

constexpr int kThreads = 128;
constexpr size_t kMostBlocks = 65535;
constexpr size_t kRowsOfChunk = 256;  // rows that one block of `transposed_times` sums

cudaStream_t queue(void* stream) { return static_cast<cudaStream_t>(stream); }

unsigned blocks_for(size_t wanted) {
  return static_cast<unsigned>(std::clamp<size_t>(wanted, 1, kMostBlocks));
}

/// Folds the block's values in a fixed tree; the sum is in thread 0.
template <class T>
__device__ T block_sum(T value) {
  __shared__ T lanes[kThreads];
  __syncthreads();  // the last sum has been read
  lanes[threadIdx.x] = value;
  for (int width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) lanes[threadIdx.x] += lanes[threadIdx.x + width];
  }
  return lanes[0];
}

template <class T, int kRank>
__global__ void times_rows(const ProductArguments g) {
  const T* factor = static_cast<const T*>(g.factor);
  T* out = static_cast<T*>(g.out);
  for (size_t i = blockIdx.x; i < g.rows; i += gridDim.x) {
    const T* row = static_cast<const T*>(g.x) + i * g.columns;
    T sums[kRank] = {};
    for (size_t j = threadIdx.x; j < g.columns; j += kThreads) {
      const T x = row[j];
      for (int k = 0; k < kRank; ++k)
        sums[k] += x * factor[k * g.columns + j];
    }
    for (int k = 0; k < kRank; ++k) {
      const T sum = block_sum(sums[k]);
      if (threadIdx.x == 0) out[k * g.rows + i] = sum;
    }
  }
}

/// partial[chunk][k][j]: the sum over the chunk's rows.
template <class T, int kRank>
__global__ void chunk_sums(const ProductArguments g, size_t chunks, T* partial) {
  const size_t j = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (j >= g.columns) return;
  const T* factor = static_cast<const T*>(g.factor);
  for (size_t chunk = blockIdx.y; chunk < chunks; chunk += gridDim.y) {
    const size_t first = chunk * kRowsOfChunk;
    const size_t last = first + kRowsOfChunk < g.rows ? first + kRowsOfChunk : g.rows;
    T sums[kRank] = {};
    for (size_t i = first; i < last; ++i) {
      const T x = static_cast<const T*>(g.x)[i * g.columns + j];
      for (int k = 0; k < kRank; ++k)
        sums[k] += x * factor[k * g.rows + i];
    }
    for (int k = 0; k < kRank; ++k)
      partial[(chunk * kRank + k) * g.columns + j] = sums[k];
  }
}

template <class T>
__global__ void add_chunks(const T* partial, size_t chunks, size_t size, T* out) {
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < size;
       i += gridDim.x * size_t{kThreads}) {
    T sum = 0;
    for (size_t chunk = 0; chunk < chunks; ++chunk)
      sum += partial[chunk * size + i];
    out[i] = sum;
  }
}

template <class T, int kRank, bool kTilde>
__global__ void add_rows(const AddLowRankArguments g) {
  for (size_t i = blockIdx.x; i < g.rows; i += gridDim.x) {
    const auto row = low_rank_row<T, kRank, kTilde>(g, i);
    for (size_t j = threadIdx.x; j < g.columns; j += kThreads)
      row.at(j);
  }
}

/// The dot product of cpu_low_rank.hpp, lane by lane; every thread gets the sum.
template <class T>
__device__ double ortho_dot(const T* x, const T* y, size_t size, double* lane) {
  double sum = 0;
  for (size_t i = threadIdx.x; i < size; i += kOrthoLanes) {
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  lane[threadIdx.x] = sum;
  for (size_t half = kOrthoLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lane[threadIdx.x] += lane[threadIdx.x + half];
  }
  __syncthreads();
  sum = lane[0];
  __syncthreads();
  return sum;
}

template <class T>
__global__ void gram_schmidt(size_t rows, size_t rank, T* factor) {
  __shared__ double lane[kOrthoLanes];
  for (size_t k = 0; k < rank; ++k) {
    T* const column = factor + k * rows;
    const double inverse = 1 / (sqrt(ortho_dot(column, column, rows, lane)) + 1e-8);
    for (size_t i = threadIdx.x; i < rows; i += kOrthoLanes) {
      column[i] = T(static_cast<double>(column[i]) * inverse);
    }
    for (size_t later = k + 1; later < rank; ++later) {
      T* const other = factor + later * rows;  // a thread meets only elements that it wrote itself
      const double share = ortho_dot(column, other, rows, lane);
      for (size_t i = threadIdx.x; i < rows; i += kOrthoLanes) {
        other[i] = T(static_cast<double>(other[i]) - share * static_cast<double>(column[i]));
      }
    }
  }
}

/// Calls body(T(), Number<rank>).
template <class Body>
void typed(bool wide, size_t rank, const Body& body) {
  with_rank(rank, [&](auto number) { wide ? body(double{}, number) : body(float{}, number); });
}

}  // namespace

void times(bool wide, const ProductArguments& g, void* stream) {
  typed(wide, g.rank, [&](auto zero, auto rank) {
    times_rows<decltype(zero), decltype(rank)::value>
        <<<blocks_for(g.rows), kThreads, 0, queue(stream)>>>(g);
  });
  GV_CUDA(cudaGetLastError());
}

void transposed_times(bool wide, const ProductArguments& g, void* stream) {
  const size_t chunks = (g.rows + kRowsOfChunk - 1) / kRowsOfChunk;
  const size_t size = g.rank * g.columns;
  const Scratch scratch(chunks * size * sizeof(double) + 1, stream);
  typed(wide, g.rank, [&](auto zero, auto rank) {
    using T = decltype(zero);
    T* const partial = static_cast<T*>(scratch.data());
    const dim3 grid(static_cast<unsigned>((g.columns + kThreads - 1) / kThreads),
                    blocks_for(chunks));
    chunk_sums<T, decltype(rank)::value><<<grid, kThreads, 0, queue(stream)>>>(g, chunks, partial);
    GV_CUDA(cudaGetLastError());
    add_chunks<<<blocks_for((size + kThreads - 1) / kThreads), kThreads, 0, queue(stream)>>>(
        partial, chunks, size, static_cast<T*>(g.out));
  });
  GV_CUDA(cudaGetLastError());
}

void add_low_rank(bool wide, const AddLowRankArguments& g, void* stream) {
  typed(wide, g.rank, [&](auto zero, auto rank) {
    using T = decltype(zero);
    constexpr int r = decltype(rank)::value;
    if (g.x_tilde != nullptr) {
      add_rows<T, r, true><<<blocks_for(g.rows), kThreads, 0, queue(stream)>>>(g);
    } else {
      add_rows<T, r, false><<<blocks_for(g.rows), kThreads, 0, queue(stream)>>>(g);
    }
  });
  GV_CUDA(cudaGetLastError());
}

void orthonormalise(bool wide, size_t rows, size_t rank, void* factor, void* stream) {
  if (wide) {
    gram_schmidt<<<1, kOrthoLanes, 0, queue(stream)>>>(rows, rank, static_cast<double*>(factor));
  } else {
    gram_schmidt<<<1, kOrthoLanes, 0, queue(stream)>>>(rows, rank, static_cast<float*>(factor));
  }
  GV_CUDA(cudaGetLastError());
}

}  // namespace grapevine::cuda
