// The arithmetic of one element, and the passes made of it: written once, compiled for the CPU and
// for CUDA.
//
// A pass is a value {coefficients, pointers} whose at<N>(i) handles elements i .. i+N-1. The CPU
// takes N = 1 and lets the compiler vectorise the loop; CUDA takes 16 bytes a thread where every
// pointer allows it. Optional streams are template flags, so that no loop tests them. Sources are
// built without fused multiply-add: every build of a pass, GPU included, gives the same bits.
//
// Everything here is in an unnamed namespace on purpose: each instruction set is its own
// translation unit and must keep its own copies (a shared one could be linked into the build for an
// older processor).
#pragma once
#include "kernels/passes/passes.hpp"

#ifdef __CUDACC__
#define GV_ELEMENT __host__ __device__ __forceinline__
#else
#define GV_ELEMENT inline __attribute__((always_inline))
#endif

namespace grapevine {
namespace {

template <class T> GV_ELEMENT void mix(T c, T& x, T& x_tilde) {
  const T s = c * (x_tilde - x);
  x += s;
  x_tilde -= s;
}

/// u = g + wd x;  v = momentum v + u;  returns s = nesterov ? u + momentum v : v.
template <bool kNesterov, class T>
GV_ELEMENT T momentum_step(T momentum, T weight_decay, T g, T x, T& v) {
  const T u = g + weight_decay * x;
  v = momentum * v + u;
  return kNesterov ? u + momentum * v : v;
}

template <class T, int N> struct alignas(N * sizeof(T)) Pack { T at[N]; };

template <int N, class T> GV_ELEMENT Pack<T, N> load(const T* p, size_t i) {
  return *reinterpret_cast<const Pack<T, N>*>(p + i);
}
#ifdef __CUDA_ARCH__
template <size_t bytes> struct Whole;
template <> struct Whole<16> { using Type = uint4; };
template <> struct Whole<8> { using Type = uint2; };
template <> struct Whole<4> { using Type = unsigned; };
#endif

/// In one piece: nvcc cuts the assignment to memory that was not read before into single numbers.
template <int N, class T> GV_ELEMENT void store(T* p, size_t i, const Pack<T, N>& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (N > 1) {
    typename Whole<sizeof pack>::Type whole;
    __builtin_memcpy(&whole, &pack, sizeof whole);
    return __stwb(reinterpret_cast<decltype(whole)*>(p + i), whole);
  }
#endif
  *reinterpret_cast<Pack<T, N>*>(p + i) = pack;
}

GV_ELEMENT float number_of(float v) { return v; }
GV_ELEMENT double number_of(double v) { return v; }
GV_ELEMENT float number_of(BFloat16 v) {
  const uint32_t bits = static_cast<uint32_t>(v.bits) << 16;
  float number;
  __builtin_memcpy(&number, &bits, sizeof number);
  return number;
}

/// To the nearest, ties to even.
GV_ELEMENT BFloat16 rounded(float v) {
  uint32_t bits;
  __builtin_memcpy(&bits, &v, sizeof bits);
  const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40u;  // what is no number stays none
  return {static_cast<uint16_t>(v == v ? nearest : quiet)};
}

template <class T> struct LookPass {
  using Element = T;
  T c;
  const T *x, *x_tilde;
  T* out;

  T*& written() { return out; }  // the vector that is written and never read

  template <int N> GV_ELEMENT void at(size_t i) const {
    auto a = load<N>(x, i);
    const auto b = load<N>(x_tilde, i);
    for (int k = 0; k < N; ++k) a.at[k] += c * (b.at[k] - a.at[k]);
    store<N>(out, i, a);
  }
};

template <class T, bool kTilde> struct RoundPass {
  using Element = T;
  T c;
  const T *x, *x_tilde;
  BFloat16* out;

  template <int N> GV_ELEMENT void at(size_t i) const {
    auto a = load<N>(x, i);
    if constexpr (kTilde) {
      const auto b = load<N>(x_tilde, i);
      for (int k = 0; k < N; ++k) a.at[k] += c * (b.at[k] - a.at[k]);
    }
    Pack<BFloat16, N> r;
    for (int k = 0; k < N; ++k) r.at[k] = rounded(static_cast<float>(a.at[k]));
    store<N>(out, i, r);
  }
};

/// Sent: what crosses a wire, the type of x or rounded.
template <class T, class Sent, bool kTilde> struct JumpPass {
  using Element = T;
  T c, alpha, alpha_tilde;
  const Sent *sent, *received;
  T *x, *x_tilde;

  template <int N> GV_ELEMENT void at(size_t i) const {
    const auto s = load<N>(sent, i);
    const auto r = load<N>(received, i);
    auto a = load<N>(x, i);
    if constexpr (kTilde) {
      auto b = load<N>(x_tilde, i);
      for (int k = 0; k < N; ++k) {
        const T m = T(number_of(s.at[k])) - T(number_of(r.at[k]));
        mix(c, a.at[k], b.at[k]);
        a.at[k] -= alpha * m;
        b.at[k] -= alpha_tilde * m;
      }
      store<N>(x_tilde, i, b);
    } else {
      for (int k = 0; k < N; ++k)
        a.at[k] -= alpha * (T(number_of(s.at[k])) - T(number_of(r.at[k])));
    }
    store<N>(x, i, a);
  }
};

template <class T, bool kNesterov, bool kV, bool kTilde, bool kCopy> struct StepPass {
  using Element = T;
  T c, lr, momentum, weight_decay;
  const T* g;
  T *v, *x, *x_tilde, *copy;

  T*& written() requires kCopy { return copy; }

  template <int N> GV_ELEMENT void at(size_t i) const {
    const auto gradient = load<N>(g, i);
    auto a = load<N>(x, i);
    Pack<T, N> b{}, velocity{};
    if constexpr (kTilde) b = load<N>(x_tilde, i);
    if constexpr (kV) velocity = load<N>(v, i);
    for (int k = 0; k < N; ++k) {
      if constexpr (kTilde) mix(c, a.at[k], b.at[k]);
      const T s = momentum_step<kNesterov>(momentum, weight_decay, gradient.at[k], a.at[k],
                                           velocity.at[k]);
      a.at[k] -= lr * s;
      if constexpr (kTilde) b.at[k] -= lr * s;
    }
    if constexpr (kV) store<N>(v, i, velocity);
    store<N>(x, i, a);
    if constexpr (kTilde) store<N>(x_tilde, i, b);
    if constexpr (kCopy) store<N>(copy, i, a);
  }
};

/// Written with differences whose zero is positive, so that a zero keeps its sign where nobody else
/// moves x. at() returns whether the elements of `front` are finite.
template <class T, bool kTilde> struct TakePass {
  using Element = T;
  T c;
  T *front, *base, *x, *x_tilde;

  template <int N> GV_ELEMENT bool at(size_t i) const {
    const auto f = load<N>(front, i);
    const auto from = load<N>(base, i);
    auto a = load<N>(x, i);
    bool finite = true;
    if constexpr (kTilde) {
      auto b = load<N>(x_tilde, i);
      for (int k = 0; k < N; ++k) {
        const T mixed = a.at[k] - c * (a.at[k] - b.at[k]);
        const T twin = b.at[k] - c * (b.at[k] - a.at[k]);
        const bool good = f.at[k] - f.at[k] == T(0);
        a.at[k] = good ? f.at[k] - (from.at[k] - mixed) : mixed;
        b.at[k] = good ? f.at[k] - (from.at[k] - twin) : twin;
        finite = finite && good;
      }
      store<N>(x_tilde, i, b);
    } else {
      for (int k = 0; k < N; ++k) {
        const bool good = f.at[k] - f.at[k] == T(0);
        a.at[k] = good ? f.at[k] - (from.at[k] - a.at[k]) : a.at[k];
        finite = finite && good;
      }
    }
    store<N>(x, i, a);
    store<N>(front, i, a);
    store<N>(base, i, a);
    return finite;
  }
};

template <class T> struct AxpyPass {
  using Element = T;
  T a;
  const T* x;
  T* y;

  template <int N> GV_ELEMENT void at(size_t i) const {
    const auto from = load<N>(x, i);
    auto to = load<N>(y, i);
    for (int k = 0; k < N; ++k) to.at[k] += a * from.at[k];
    store<N>(y, i, to);
  }
};

template <class T> struct ScalePass {
  using Element = T;
  T a;
  const T* x;
  T* y;

  template <int N> GV_ELEMENT void at(size_t i) const {
    auto value = load<N>(x, i);
    for (int k = 0; k < N; ++k) value.at[k] *= a;
    store<N>(y, i, value);
  }
};

}  // namespace
}  // namespace grapevine
