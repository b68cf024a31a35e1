// The CUDA versions of the low-rank passes. Simple: one block per row, or one thread per column.
// They are only queued, like those of ops.cu.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/passes/elements_low_rank.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine::cuda {
namespace {

constexpr int kThreads = 128;
constexpr size_t kMostBlocks = 65535;

cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

unsigned blocks_for(size_t wanted) {
  return static_cast<unsigned>(std::clamp<size_t>(wanted, 1, kMostBlocks));
}

/// Adds the block's values in a fixed tree; thread 0 has the sum.
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

/// A thread sums a column over the rows in the CPU's order, so it gets the CPU's bits.
template <class T, int kRank>
__global__ void sum_columns(const ProductArguments g) {
  const T* factor = static_cast<const T*>(g.factor);
  T* out = static_cast<T*>(g.out);
  for (size_t j = blockIdx.x * size_t{kThreads} + threadIdx.x; j < g.columns;
       j += gridDim.x * size_t{kThreads}) {
    T sums[kRank] = {};
    for (size_t i = 0; i < g.rows; ++i) {
      const T x = static_cast<const T*>(g.x)[i * g.columns + j];
      for (int k = 0; k < kRank; ++k)
        sums[k] += x * factor[k * g.rows + i];
    }
    for (int k = 0; k < kRank; ++k)
      out[k * g.columns + j] = sums[k];
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

/// The dot product of cpu/low_rank.hpp, lane by lane; every thread gets the sum.
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
      T* const other = factor + later * rows;  // a thread reads only elements that it wrote itself
      const double share = ortho_dot(column, other, rows, lane);
      for (size_t i = threadIdx.x; i < rows; i += kOrthoLanes) {
        other[i] = T(static_cast<double>(other[i]) - share * static_cast<double>(column[i]));
      }
    }
  }
}

template <class T>
__global__ void renew_column(const RenewArguments a) {
  const double square = *static_cast<const double*>(a.square);
  if (!a.always && square > 0 && isfinite(square)) return;  // it has a direction
  for (size_t i = threadIdx.x; i < a.count; i += kThreads)
    static_cast<T*>(a.column)[i] = static_cast<T>(a.values[i]);
}

/// Calls body(T(), Number<rank>).
template <class Body>
void typed(bool wide, size_t rank, const Body& body) {
  with_rank(rank, [&](auto number) { wide ? body(double{}, number) : body(float{}, number); });
}

}  // namespace

void queue(bool wide, const TimesArguments& g, size_t, void* stream) {
  typed(wide, g.rank, [&](auto zero, auto rank) {
    times_rows<decltype(zero), decltype(rank)::value>
        <<<blocks_for(g.rows), kThreads, 0, native(stream)>>>(g);
  });
}

void queue(bool wide, const TransposedTimesArguments& g, size_t, void* stream) {
  typed(wide, g.rank, [&](auto zero, auto rank) {
    sum_columns<decltype(zero), decltype(rank)::value>
        <<<blocks_for((g.columns + kThreads - 1) / kThreads), kThreads, 0, native(stream)>>>(g);
  });
}

void queue(bool wide, const AddLowRankArguments& g, size_t, void* stream) {
  typed(wide, g.rank, [&](auto zero, auto rank) {
    using T = decltype(zero);
    constexpr int r = decltype(rank)::value;
    if (g.x_tilde != nullptr) {
      add_rows<T, r, true><<<blocks_for(g.rows), kThreads, 0, native(stream)>>>(g);
    } else {
      add_rows<T, r, false><<<blocks_for(g.rows), kThreads, 0, native(stream)>>>(g);
    }
  });
}

void queue(bool wide, const RenewArguments& a, size_t, void* stream) {
  if (wide) {
    renew_column<double><<<1, kThreads, 0, native(stream)>>>(a);
  } else {
    renew_column<float><<<1, kThreads, 0, native(stream)>>>(a);
  }
}

void queue(bool wide, const OrthonormaliseArguments& g, size_t, void* stream) {
  const auto run = [&](auto* factor) {
    gram_schmidt<<<1, kOrthoLanes, 0, native(stream)>>>(g.rows, g.rank, factor);
  };
  if (wide) {
    run(static_cast<double*>(g.factor));
  } else {
    run(static_cast<float*>(g.factor));
  }
}

}  // namespace grapevine::cuda
