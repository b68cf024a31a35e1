// From a call's arguments to a pass: picks the element type and the optional streams, once per
// call.
//
// with_pass(arguments, wide, run) calls run(pass) with the matching pass of elements.hpp. For the
// CPU and CUDA alike.
#pragma once
#include "kernels/passes/elements.hpp"
#include "kernels/passes/elements_combine.hpp"

namespace grapevine {
namespace {

template <class T>
const T* in(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* out(void* p) {
  return static_cast<T*>(p);
}

template <bool kValue>
struct Flag {
  static constexpr bool value = kValue;
};

template <class Body>
void with_flag(bool value, const Body& body) {
  if (value) {
    body(Flag<true>{});
  } else {
    body(Flag<false>{});
  }
}

template <class T, class Run>
void typed_pass(const ExtrapolateArguments& a, const Run& run) {
  run(LookPass<T>{T(a.c), in<T>(a.x), in<T>(a.x_tilde), out<T>(a.out)});
}

template <class T, class Run>
void typed_pass(const JumpArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(JumpPass<T, T, decltype(tilde)::value>{T(a.c), T(a.alpha), T(a.alpha_tilde), in<T>(a.sent),
                                               in<T>(a.received), out<T>(a.x), out<T>(a.x_tilde)});
  });
}

template <class T, class Run>
void typed_pass(const RoundArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(RoundPass<T, decltype(tilde)::value>{T(a.c), in<T>(a.x), in<T>(a.x_tilde),
                                             out<BFloat16>(a.out)});
  });
}

template <class T, class Run>
void typed_pass(const RoundedJumpArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(JumpPass<T, BFloat16, decltype(tilde)::value>{T(a.c), T(a.alpha), T(a.alpha_tilde),
                                                     in<BFloat16>(a.sent), in<BFloat16>(a.received),
                                                     out<T>(a.x), out<T>(a.x_tilde)});
  });
}

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

template <class T, class Run>
void typed_pass(const TakeArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(TakePass<T, decltype(tilde)::value>{T(a.c), out<T>(a.front), out<T>(a.base), out<T>(a.x),
                                            out<T>(a.x_tilde)});
  });
}

template <class T, class Run>
void typed_pass(const AxpyArguments& a, const Run& run) {
  run(AxpyPass<T>{T(a.a), in<T>(a.x), out<T>(a.y)});
}

template <class T, class Run>
void typed_pass(const ScaleArguments& a, const Run& run) {
  run(ScalePass<T>{T(a.a), in<T>(a.x), out<T>(a.y)});
}

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

template <class T, class Run>
void typed_pass(const GatherArguments& a, const Run& run) {
  if (a.stride == 2) return run(GatherPass<T, 2>{2, in<T>(a.x), out<T>(a.out)});
  run(GatherPass<T, 0>{a.stride, in<T>(a.x), out<T>(a.out)});
}

template <class T, class Run>
void typed_pass(const ScatterArguments& a, const Run& run) {
  if (a.stride == 2) return run(ScatterPass<T, 2>{2, in<T>(a.x), out<T>(a.out)});
  run(ScatterPass<T, 0>{a.stride, in<T>(a.x), out<T>(a.out)});
}

template <class Arguments, class Run>
void with_pass(const Arguments& arguments, bool wide, const Run& run) {
  if (wide) {
    typed_pass<double>(arguments, run);
  } else {
    typed_pass<float>(arguments, run);
  }
}

}  // namespace
}  // namespace grapevine
