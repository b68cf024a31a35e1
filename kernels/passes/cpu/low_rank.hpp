// The low-rank passes of one CPU build; included by loops.hpp. Sums run in a fixed number of lanes,
// or row after row, so every build and every split gives the same bits.
#pragma once
#include "kernels/passes/cpu/orthonormalise.hpp"
#include "kernels/passes/cpu/times.hpp"
#include "kernels/passes/elements_low_rank.hpp"

namespace grapevine {
namespace {

/// out_k[j] += sum over kRows rows of x[row][j] p_k[row], row after row.
template <class T, int kRank, int kRows>
void add_rows(const ProductArguments& g, size_t row, size_t first, size_t last) {
  const T* x[kRows];
  T p[kRank][kRows];
  T* sum[kRank];
  for (int r = 0; r < kRows; ++r) {
    x[r] = in<T>(g.x) + (row + static_cast<size_t>(r)) * g.columns;
    for (int k = 0; k < kRank; ++k) {
      p[k][r] = in<T>(g.factor)[static_cast<size_t>(k) * g.rows + row + static_cast<size_t>(r)];
    }
  }
  for (int k = 0; k < kRank; ++k)
    sum[k] = out<T>(g.out) + static_cast<size_t>(k) * g.columns;
#pragma GCC ivdep
  for (size_t j = first; j < last; ++j) {
#pragma GCC unroll 4
    for (int k = 0; k < kRank; ++k) {
      T s = sum[k][j];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        s += x[r][j] * p[k][r];
      sum[k][j] = s;
    }
  }
}

/// Columns are processed in tiles whose sums stay in the L1 cache.
template <class T>
void transposed_times(const ProductArguments& g, size_t first, size_t last) {
  with_rank(g.rank, [&](auto rank) {
    constexpr int r = decltype(rank)::value;
    constexpr size_t tile = 16384 / sizeof(T) / r;
    for (size_t begin = first; begin < last; begin += tile) {
      const size_t end = last - begin < tile ? last : begin + tile;
      for (size_t k = 0; k < r; ++k) {
        for (size_t j = begin; j < end; ++j)
          out<T>(g.out)[k * g.columns + j] = T(0);
      }
      size_t row = 0;
      for (; row + 4 <= g.rows; row += 4)
        add_rows<T, r, 4>(g, row, begin, end);
      for (; row < g.rows; ++row)
        add_rows<T, r, 1>(g, row, begin, end);
    }
  });
}

template <class T>
void add_low_rank(const AddLowRankArguments& g, size_t first, size_t last) {
  with_flag(g.x_tilde != nullptr, [&](auto tilde) {
    with_rank(g.rank, [&](auto rank) {
      for (size_t i = first; i < last; ++i) {
        const auto row = low_rank_row<T, decltype(rank)::value, decltype(tilde)::value>(g, i);
#pragma GCC ivdep
        for (size_t j = 0; j < g.columns; ++j)
          row.at(j);
      }
    });
  });
}

constexpr LowRankBuild low_rank_build() {
  return {[](bool wide, const ProductArguments& g, size_t first, size_t last) {
            wide ? times<double>(g, first, last) : times<float>(g, first, last);
          },
          [](bool wide, const ProductArguments& g, size_t first, size_t last) {
            wide ? transposed_times<double>(g, first, last)
                 : transposed_times<float>(g, first, last);
          },
          [](bool wide, const AddLowRankArguments& g, size_t first, size_t last) {
            wide ? add_low_rank<double>(g, first, last) : add_low_rank<float>(g, first, last);
          },
          [](bool wide, size_t rows, size_t rank, void* factor) {
            wide ? orthonormalise(rows, rank, out<double>(factor))
                 : orthonormalise(rows, rank, out<float>(factor));
          }};
}

}  // namespace
}  // namespace grapevine
