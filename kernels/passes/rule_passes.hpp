// The elementwise passes of training rules: snapshots, jumps and steps.
//
// elements.hpp explains how a pass is described.
#pragma once
#include "kernels/passes/elements.hpp"

namespace grapevine {

// --- extrapolate: out = x + c (x~ - x)

struct ExtrapolateArguments {
  double c;
  const void *x, *x_tilde;
  void* out;
  bool streamed = false;  // CPU: `out` is written past the caches

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(x_tilde, size * width, Access::reads);
    see(out, size * width, Access::writes);
  }
};

/// Like ExtrapolateArguments, with out in bf16.
struct RoundArguments {
  double c;
  const void *x, *x_tilde;  // x_tilde may be null
  void* out;

  void each(size_t size, size_t width, const auto& see) {
    see(x, size * width, Access::reads);
    see(x_tilde, size * width, Access::reads);
    see(out, size * sizeof(BFloat16), Access::writes);
  }
};

namespace {

template <class T>
struct ExtrapolatePass {
  using Element = T;
  T c;
  const T *x, *x_tilde;
  T* out;

  T*& written() { return out; }  // the vector that is only written

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    auto a = load<N>(x, i);
    const auto b = load<N>(x_tilde, i);
    for (int k = 0; k < N; ++k)
      a.at[k] += c * (b.at[k] - a.at[k]);
    store<N>(out, i, a);
  }
};

template <class T, bool kTilde>
struct RoundPass {
  using Element = T;
  T c;
  const T *x, *x_tilde;
  BFloat16* out;

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    auto a = load<N>(x, i);
    if constexpr (kTilde) {
      const auto b = load<N>(x_tilde, i);
      for (int k = 0; k < N; ++k)
        a.at[k] += c * (b.at[k] - a.at[k]);
    }
    Pack<BFloat16, N> r;
    for (int k = 0; k < N; ++k)
      r.at[k] = rounded(static_cast<float>(a.at[k]));
    store<N>(out, i, r);
  }
};

template <class T, class Run>
void typed_pass(const ExtrapolateArguments& a, const Run& run) {
  run(ExtrapolatePass<T>{T(a.c), in<T>(a.x), in<T>(a.x_tilde), out<T>(a.out)});
}

template <class T, class Run>
void typed_pass(const RoundArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(RoundPass<T, decltype(tilde)::value>{T(a.c), in<T>(a.x), in<T>(a.x_tilde),
                                             out<BFloat16>(a.out)});
  });
}

}  // namespace

// --- mix_and_jump: mix by c; m = sent - received; x -= alpha m; x~ -= alpha~ m

struct JumpArguments {
  double c, alpha, alpha_tilde;
  const void *sent, *received;
  void *x, *x_tilde;  // x_tilde may be null

  void each(size_t size, size_t width, const auto& see) {
    see(sent, size * width, Access::reads);
    see(received, size * width, Access::reads);
    see(x, size * width, Access::updates);
    see(x_tilde, size * width, Access::updates);
  }
};

/// Like JumpArguments, with sent and received in bf16.
struct RoundedJumpArguments {
  double c, alpha, alpha_tilde;
  const void *sent, *received;
  void *x, *x_tilde;  // x_tilde may be null

  void each(size_t size, size_t width, const auto& see) {
    see(sent, size * sizeof(BFloat16), Access::reads);
    see(received, size * sizeof(BFloat16), Access::reads);
    see(x, size * width, Access::updates);
    see(x_tilde, size * width, Access::updates);
  }
};

namespace {

/// Sent: the type of the messages, that of x or bf16.
template <class T, class Sent, bool kTilde>
struct JumpPass {
  using Element = T;
  T c, alpha, alpha_tilde;
  const Sent *sent, *received;
  T *x, *x_tilde;

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    const auto s = load<N>(sent, i);
    const auto r = load<N>(received, i);
    auto a = load<N>(x, i);
    if constexpr (kTilde) {
      auto b = load<N>(x_tilde, i);
      for (int k = 0; k < N; ++k) {
        const T m = T(widened(s.at[k])) - T(widened(r.at[k]));
        mix(c, a.at[k], b.at[k]);
        a.at[k] -= alpha * m;
        b.at[k] -= alpha_tilde * m;
      }
      store<N>(x_tilde, i, b);
    } else {
      for (int k = 0; k < N; ++k)
        a.at[k] -= alpha * (T(widened(s.at[k])) - T(widened(r.at[k])));
    }
    store<N>(x, i, a);
  }
};

template <class T, class Run>
void typed_pass(const JumpArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(JumpPass<T, T, decltype(tilde)::value>{T(a.c), T(a.alpha), T(a.alpha_tilde), in<T>(a.sent),
                                               in<T>(a.received), out<T>(a.x), out<T>(a.x_tilde)});
  });
}

template <class T, class Run>
void typed_pass(const RoundedJumpArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(JumpPass<T, BFloat16, decltype(tilde)::value>{
        T(a.c), T(a.alpha), T(a.alpha_tilde), in<BFloat16>(a.sent), in<BFloat16>(a.received),
        out<T>(a.x), out<T>(a.x_tilde)});
  });
}

}  // namespace

// --- mix_and_step: mix by c; u = g + wd x; v = momentum v + u; x -= lr (v, or u + momentum v)

struct StepArguments {
  double c, lr, momentum, weight_decay;
  bool nesterov;
  const void* g;
  void *v, *x, *x_tilde, *copy;  // all but x may be null
  bool streamed = false;         // CPU: `copy` is written past the caches

  void each(size_t size, size_t width, const auto& see) {
    see(g, size * width, Access::reads);
    see(v, size * width, Access::updates);
    see(x, size * width, Access::updates);
    see(x_tilde, size * width, Access::updates);
    see(copy, size * width, Access::writes);
  }
};

namespace {

/// u = g + wd x;  v = momentum v + u;  returns s = nesterov ? u + momentum v : v.
template <bool kNesterov, class T>
GV_ELEMENT T momentum_step(T momentum, T weight_decay, T g, T x, T& v) {
  const T u = g + weight_decay * x;
  v = momentum * v + u;
  return kNesterov ? u + momentum * v : v;
}

template <class T, bool kNesterov, bool kV, bool kTilde, bool kCopy>
struct StepPass {
  using Element = T;
  T c, lr, momentum, weight_decay;
  const T* g;
  T *v, *x, *x_tilde, *copy;

  T*& written() requires kCopy { return copy; }

  template <int N>
  GV_ELEMENT void at(size_t i) const {
    const auto gradient = load<N>(g, i);
    auto a = load<N>(x, i);
    Pack<T, N> b{}, velocity{};
    if constexpr (kTilde) b = load<N>(x_tilde, i);
    if constexpr (kV) velocity = load<N>(v, i);
    for (int k = 0; k < N; ++k) {
      if constexpr (kTilde) mix(c, a.at[k], b.at[k]);
      const T s =
          momentum_step<kNesterov>(momentum, weight_decay, gradient.at[k], a.at[k], velocity.at[k]);
      a.at[k] -= lr * s;
      if constexpr (kTilde) b.at[k] -= lr * s;
    }
    if constexpr (kV) store<N>(v, i, velocity);
    store<N>(x, i, a);
    if constexpr (kTilde) store<N>(x_tilde, i, b);
    if constexpr (kCopy) store<N>(copy, i, a);
  }
};

template <class T, class Run>
void typed_pass(const StepArguments& a, const Run& run) {
  with_flag(a.nesterov, [&](auto nesterov) {
    with_flag(a.v != nullptr, [&](auto v) {
      with_flag(a.x_tilde != nullptr, [&](auto tilde) {
        with_flag(a.copy != nullptr, [&](auto copy) {
          run(StepPass<T, decltype(nesterov)::value, decltype(v)::value, decltype(tilde)::value,
                       decltype(copy)::value>{T(a.c), T(a.lr), T(a.momentum), T(a.weight_decay),
                                              in<T>(a.g), out<T>(a.v), out<T>(a.x),
                                              out<T>(a.x_tilde), out<T>(a.copy)});
        });
      });
    });
  });
}

}  // namespace

// --- adam_step

struct AdamArguments {
  double c, lr, beta1, beta2, unbias1, unbias2, epsilon, weight_decay;
  bool decoupled;
  const void* g;
  void *m, *v, *x, *x_tilde, *copy;  // x_tilde and copy may be null
  bool streamed = false;             // CPU: `copy` is written past the caches

  void each(size_t size, size_t width, const auto& see) {
    see(g, size * width, Access::reads);
    see(m, size * width, Access::updates);
    see(v, size * width, Access::updates);
    see(x, size * width, Access::updates);
    see(x_tilde, size * width, Access::updates);
    see(copy, size * width, Access::writes);
  }
};

namespace {

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

template <class T, class Run>
void typed_pass(const AdamArguments& a, const Run& run) {
  with_flag(a.decoupled, [&](auto decoupled) {
    with_flag(a.x_tilde != nullptr, [&](auto tilde) {
      with_flag(a.copy != nullptr, [&](auto copy) {
        run(AdamPass<T, decltype(decoupled)::value, decltype(tilde)::value, decltype(copy)::value>{
            T(a.c), T(a.lr), T(a.beta1), T(1 - a.beta1), T(a.beta2), T(1 - a.beta2), T(a.unbias1),
            T(a.unbias2), T(a.epsilon), T(a.weight_decay), in<T>(a.g), out<T>(a.m), out<T>(a.v),
            out<T>(a.x), out<T>(a.x_tilde), out<T>(a.copy)});
      });
    });
  });
}

}  // namespace

// --- mix_and_take: mix by c; x += front - base; x~ += front - base; front = base = x

struct TakeArguments {
  double c;
  void *front, *base, *x, *x_tilde;  // x_tilde may be null
  void* finite = nullptr;            // on a device, a double: 1 if front was finite, else 0

  void each(size_t size, size_t width, const auto& see) {
    see(front, size * width, Access::updates);
    see(base, size * width, Access::updates);
    see(x, size * width, Access::updates);
    see(x_tilde, size * width, Access::updates);
    see(finite, sizeof(double), Access::writes);
  }
};

namespace {

/// The differences give a positive zero, so a zero keeps its sign if nothing else changes x. at()
/// returns whether the elements of `front` are finite.
template <class T, bool kTilde>
struct TakePass {
  using Element = T;
  T c;
  T *front, *base, *x, *x_tilde;

  template <int N>
  GV_ELEMENT bool at(size_t i) const {
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

template <class T, class Run>
void typed_pass(const TakeArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(TakePass<T, decltype(tilde)::value>{T(a.c), out<T>(a.front), out<T>(a.base), out<T>(a.x),
                                            out<T>(a.x_tilde)});
  });
}

}  // namespace

/// All of these except mix_and_take, which also returns a result.
template <template <class> class Slot>
using RuleSlots = Slots<Slot, ExtrapolateArguments, RoundArguments, JumpArguments,
                        RoundedJumpArguments, StepArguments, AdamArguments>;

}  // namespace grapevine
