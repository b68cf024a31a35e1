// More passes like those of elements.hpp: linear combinations of several vectors, Adam, and every
// k-th element of a vector.
#pragma once
#include "kernels/passes/elements.hpp"

namespace grapevine {
namespace {

/// out = base + a_0 x_0 + a_1 x_1 + ..., added from the left; base is left out without kBase.
template <class T, bool kBase, int kCount>
struct CombinePass {
  using Element = T;
  T a[kCount];
  const T* x[kCount];
  const T* base;
  T* out;

  T*& written() { return out; }

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    Pack<T, N> sum;
    if constexpr (kBase) {
      sum = load<N>(base, i);
      add<0, N>(sum, i);
    } else {
      sum = load<N>(x[0], i);
      for (int k = 0; k < N; ++k)
        sum.at[k] *= a[0];
      add<1, N>(sum, i);
    }
    store<N>(out, i, sum);
  }

  template <int kTerm, int N>  // unrolled by recursion: what the vectoriser sees is one block
  GV_ELEMENT void add(Pack<T, N>& sum, size_t i) const {
    if constexpr (kTerm < kCount) {
      const auto from = load<N>(x[kTerm], i);
      for (int k = 0; k < N; ++k)
        sum.at[k] += a[kTerm] * from.at[k];
      add<kTerm + 1, N>(sum, i);
    }
  }
};

GV_ELEMENT float square_root(float x) { return __builtin_sqrtf(x); }
GV_ELEMENT double square_root(double x) { return __builtin_sqrt(x); }

/// `unbias1` and `unbias2` are 1 / (1 - beta^t).
template <class T, bool kDecoupled, bool kTilde, bool kCopy>
struct AdamPass {
  using Element = T;
  T c, lr, beta1, rest1, beta2, rest2, unbias1, unbias2, epsilon, weight_decay;
  const T* g;
  T *m, *v, *x, *x_tilde, *copy;

  T*& written() requires kCopy { return copy; }

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    const auto gradient = load<N>(g, i);
    auto first = load<N>(m, i);
    auto second = load<N>(v, i);
    auto a = load<N>(x, i);
    Pack<T, N> b{};
    if constexpr (kTilde) b = load<N>(x_tilde, i);
    for (int k = 0; k < N; ++k) {
      if constexpr (kTilde) mix(c, a.at[k], b.at[k]);
      T u = gradient.at[k];
      if constexpr (!kDecoupled) u += weight_decay * a.at[k];
      first.at[k] = beta1 * first.at[k] + rest1 * u;
      second.at[k] = beta2 * second.at[k] + rest2 * (u * u);
      T s = (first.at[k] * unbias1) / (square_root(second.at[k] * unbias2) + epsilon);
      if constexpr (kDecoupled) s += weight_decay * a.at[k];
      a.at[k] -= lr * s;
      if constexpr (kTilde) b.at[k] -= lr * s;
    }
    store<N>(m, i, first);
    store<N>(v, i, second);
    store<N>(x, i, a);
    if constexpr (kTilde) store<N>(x_tilde, i, b);
    if constexpr (kCopy) store<N>(copy, i, a);
  }
};

/// kStride 0: known at run time only.
template <class T, int kStride>
struct GatherPass {
  using Element = T;
  size_t stride;
  const T* x;  // its first element that is read
  T* out;

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    Pack<T, N> pack;
    for (int k = 0; k < N; ++k)
      pack.at[k] = x[(i + k) * (kStride > 0 ? kStride : stride)];
    store<N>(out, i, pack);
  }
};

template <class T, int kStride>
struct ScatterPass {
  using Element = T;
  size_t stride;
  const T* x;
  T* out;  // its first element that is written

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    const auto pack = load<N>(x, i);
    for (int k = 0; k < N; ++k)
      out[(i + k) * (kStride > 0 ? kStride : stride)] = pack.at[k];
  }
};

}  // namespace
}  // namespace grapevine
