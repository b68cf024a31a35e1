// X times a thin factor in one CPU build; included by low_rank.hpp.
#pragma once
#include "kernels/passes/elements_low_rank.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif

template <class T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

/// kRows rows of X times kRank columns of Q. Each sum runs in `lanes` lanes, folded in halves.
template <class T, int kRank, int kRows>
void times_rows(const ProductArguments& g, size_t row) {
  constexpr size_t lanes = (kRank == 1 ? 128 : 64) / sizeof(T);
  constexpr size_t width = kVectorBytes / sizeof(T);
  constexpr size_t vectors = lanes / width;
  const T* x[kRows];
  const T* q[kRank];
  for (int r = 0; r < kRows; ++r)
    x[r] = in<T>(g.x) + (row + static_cast<size_t>(r)) * g.columns;
  for (int k = 0; k < kRank; ++k)
    q[k] = in<T>(g.factor) + static_cast<size_t>(k) * g.columns;
  Vector<T> sums[kRows][kRank][vectors] = {};
  size_t j = 0;
  for (; j + lanes <= g.columns; j += lanes) {
#pragma GCC unroll 8
    for (size_t u = 0; u < vectors; ++u) {
#pragma GCC unroll 4
      for (int k = 0; k < kRank; ++k) {
        Vector<T> factor;
        __builtin_memcpy(&factor, q[k] + j + u * width, sizeof factor);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          Vector<T> number;
          __builtin_memcpy(&number, x[r] + j + u * width, sizeof number);
          sums[r][k][u] += number * factor;
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int k = 0; k < kRank; ++k) {
      T lane[lanes];
      __builtin_memcpy(lane, sums[r][k], sizeof lane);
      for (size_t l = 0; j + l < g.columns; ++l)
        lane[l] += x[r][j + l] * q[k][j + l];
      for (size_t half = lanes / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; ++l)
          lane[l] += lane[l + half];
      }
      out<T>(g.out)[static_cast<size_t>(k) * g.rows + row + static_cast<size_t>(r)] = lane[0];
    }
  }
}

/// As many rows are processed together as there are registers for their sums.
template <class T>
void times(const ProductArguments& g, size_t first, size_t last) {
  constexpr int some = kVectorBytes == 64 ? 4 : 2;
  with_rank(g.rank, [&](auto rank) {
    constexpr int r = decltype(rank)::value;
    size_t row = first;
    for (; row + some <= last; row += some)
      times_rows<T, r, some>(g, row);
    for (; row < last; ++row)
      times_rows<T, r, 1>(g, row);
  });
}

}  // namespace
}  // namespace grapevine
