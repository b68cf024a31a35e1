// The arithmetic of low_rank.hpp that the CPU and CUDA share (see elements.hpp).
#pragma once
#include "kernels/passes/elements.hpp"
#include "kernels/passes/low_rank_passes.hpp"

namespace grapevine {
namespace {

/// Partial sums of `orthonormalise`, on every device: lane l takes elements l, l + 64, ...
constexpr size_t kOrthoLanes = 64;

/// One row of X += a P Q^T. If there is an x~, also mixing by c and x~ += b P Q^T.
template <class T, int kRank, bool kTilde>
struct AddLowRankRow {
  T c, a, b;
  T p[kRank];  // this row of P
  const T* q[kRank];
  T *x, *x_tilde;  // this row

  GV_ELEMENT void at(size_t j) const {
    T s = p[0] * q[0][j];
    add_rest<1>(s, j);
    T value = x[j];
    if constexpr (kTilde) {
      T twin = x_tilde[j];
      mix(c, value, twin);
      x_tilde[j] = twin + b * s;
    }
    x[j] = value + a * s;
  }

  template <int k>
  GV_ELEMENT void add_rest(T& s, size_t j) const {
    if constexpr (k < kRank) {
      s += p[k] * q[k][j];
      add_rest<k + 1>(s, j);
    }
  }
};

template <class T, int kRank, bool kTilde>
GV_ELEMENT AddLowRankRow<T, kRank, kTilde> low_rank_row(const AddLowRankArguments& g, size_t i) {
  AddLowRankRow<T, kRank, kTilde> row;
  row.c = T(g.c);
  row.a = T(g.a);
  row.b = T(g.b);
  for (int k = 0; k < kRank; ++k) {
    row.p[k] = static_cast<const T*>(g.p)[static_cast<size_t>(k) * g.rows + i];
    row.q[k] = static_cast<const T*>(g.q) + static_cast<size_t>(k) * g.columns;
  }
  row.x = static_cast<T*>(g.x) + i * g.columns;
  row.x_tilde = kTilde ? static_cast<T*>(g.x_tilde) + i * g.columns : nullptr;
  return row;
}

template <int kValue>
struct Number {
  static constexpr int value = kValue;
};

/// Calls body(Number<rank>), 1 <= rank <= kMostThin.
template <class Body>
void with_rank(size_t rank, const Body& body) {
  switch (rank) {
    case 1: return body(Number<1>{});
    case 2: return body(Number<2>{});
    case 3: return body(Number<3>{});
    default: return body(Number<4>{});
  }
}

}  // namespace
}  // namespace grapevine
