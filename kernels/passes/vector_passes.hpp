// The elementwise passes over plain vectors: linear combinations, and every k-th element.
//
// elements.hpp explains how a pass is described.
#pragma once
#include "kernels/passes/elements.hpp"

namespace grapevine {

// --- axpy: y += a x

struct AxpyArguments {
  double a;
  const void* x;
  void* y;

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(y, size * width, Access::updates);
  }
};

namespace {

template <class T>
struct AxpyPass {
  using Element = T;
  T a;
  const T* x;
  T* y;

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    const auto from = load<N>(x, i);
    auto to = load<N>(y, i);
    for (int k = 0; k < N; ++k)
      to.at[k] += a * from.at[k];
    store<N>(y, i, to);
  }
};

template <class T, class Run>
void typed_pass(const AxpyArguments& a, const Run& run) {
  run(AxpyPass<T>{T(a.a), in<T>(a.x), out<T>(a.y)});
}

}  // namespace

// --- scale: y = a x

struct ScaleArguments {
  double a;
  const void* x;
  void* y;

  void each(size_t size, size_t width, const auto& see) {
    const bool in_place = x == y;
    see(x, size * width, Access::reads);
    see(y, size * width, touched::written(in_place));
  }
};

namespace {

template <class T>
struct ScalePass {
  using Element = T;
  T a;
  const T* x;
  T* y;

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    auto value = load<N>(x, i);
    for (int k = 0; k < N; ++k)
      value.at[k] *= a;
    store<N>(y, i, value);
  }
};

template <class T, class Run>
void typed_pass(const ScaleArguments& a, const Run& run) {
  run(ScalePass<T>{T(a.a), in<T>(a.x), out<T>(a.y)});
}

}  // namespace

// --- combine

/// out = base + a_0 x_0 + a_1 x_1 + ...
struct CombineArguments {
  static constexpr int kMost = 8;  // terms in one pass
  int count;                       // 1 to kMost
  double a[kMost];
  const void* x[kMost];
  const void* base;  // null: there is none
  void* out;
  bool streamed = false;  // CPU: `out` is written past the caches

  void each(size_t size, size_t width, const auto& see) {
    bool in_place = base == out;
    for (int k = 0; k < count; ++k)
      in_place = in_place || x[k] == out;
    for (int k = 0; k < count; ++k)
      see(x[k], size * width, Access::reads);
    see(base, size * width, Access::reads);
    see(out, size * width, touched::written(in_place));
  }
};

namespace {

/// out = base + a_0 x_0 + a_1 x_1 + ..., added from the left; without kBase there is no base.
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

  template <int kTerm, int N>  // recursion unrolls it into one block, which vectorises
  GV_ELEMENT void add(Pack<T, N>& sum, size_t i) const {
    if constexpr (kTerm < kCount) {
      const auto from = load<N>(x[kTerm], i);
      for (int k = 0; k < N; ++k)
        sum.at[k] += a[kTerm] * from.at[k];
      add<kTerm + 1, N>(sum, i);
    }
  }
};

template <class T, int kCount, class Run>
void combine_of(const CombineArguments& a, const Run& run) {
  if constexpr (kCount < CombineArguments::kMost) {
    if (a.count > kCount) return combine_of<T, kCount + 1>(a, run);
  }
  with_flag(a.base != nullptr, [&](auto base) {
    CombinePass<T, decltype(base)::value, kCount> pass;
    for (int k = 0; k < kCount; ++k) {
      pass.a[k] = T(a.a[k]);
      pass.x[k] = in<T>(a.x[k]);
    }
    pass.base = in<T>(a.base);
    pass.out = out<T>(a.out);
    run(pass);
  });
}

template <class T, class Run>
void typed_pass(const CombineArguments& a, const Run& run) {
  combine_of<T, 1>(a, run);
}

}  // namespace

// --- gather

/// out[i] = x[i stride]; `x` points to the first element that is read.
struct GatherArguments {
  size_t stride;
  const void* x;
  void* out;

  void each(size_t size, size_t width, const auto& see) {
    see(x, touched::reach(size, stride, width), Access::reads);
    see(out, size * width, Access::writes);
  }
};

namespace {

/// kStride 0: known only at run time.
template <class T, int kStride>
struct GatherPass {
  using Element = T;
  size_t stride;
  const T* x;  // the first element that is read
  T* out;

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    Pack<T, N> pack;
    for (int k = 0; k < N; ++k)
      pack.at[k] = x[(i + k) * (kStride > 0 ? kStride : stride)];
    store<N>(out, i, pack);
  }
};

template <class T, class Run>
void typed_pass(const GatherArguments& a, const Run& run) {
  if (a.stride == 2) return run(GatherPass<T, 2>{2, in<T>(a.x), out<T>(a.out)});
  run(GatherPass<T, 0>{a.stride, in<T>(a.x), out<T>(a.out)});
}

}  // namespace

// --- scatter

/// out[i stride] = x[i]; `out` points to the first element that is written.
struct ScatterArguments {
  size_t stride;
  const void* x;
  void* out;

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(out, touched::reach(size, stride, width),
        touched::written(stride > 1));  // elements in between stay
  }
};

namespace {

template <class T, int kStride>
struct ScatterPass {
  using Element = T;
  size_t stride;
  const T* x;
  T* out;  // the first element that is written

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    const auto pack = load<N>(x, i);
    for (int k = 0; k < N; ++k)
      out[(i + k) * (kStride > 0 ? kStride : stride)] = pack.at[k];
  }
};

template <class T, class Run>
void typed_pass(const ScatterArguments& a, const Run& run) {
  if (a.stride == 2) return run(ScatterPass<T, 2>{2, in<T>(a.x), out<T>(a.out)});
  run(ScatterPass<T, 0>{a.stride, in<T>(a.x), out<T>(a.out)});
}

}  // namespace

template <template <class> class Slot>
using VectorSlots =
    Slots<Slot, AxpyArguments, ScaleArguments, CombineArguments, GatherArguments, ScatterArguments>;

}  // namespace grapevine
