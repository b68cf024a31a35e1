// From a call's arguments to a pass: picks the element type and the optional streams, once per
// call.
//
// with_pass(arguments, wide, run) calls run(pass) with the matching pass of elements.hpp. For the
// CPU and CUDA alike.
#pragma once
#include "kernels/elements.hpp"

namespace grapevine {
namespace {

template <class T> const T* in(const void* p) { return static_cast<const T*>(p); }
template <class T> T* out(void* p) { return static_cast<T*>(p); }

template <bool kValue> struct Flag { static constexpr bool value = kValue; };

template <class Body> void with_flag(bool value, const Body& body) {
  if (value) {
    body(Flag<true>{});
  } else {
    body(Flag<false>{});
  }
}

template <class T, class Run> void typed_pass(const LookArguments& a, const Run& run) {
  run(LookPass<T>{T(a.c), in<T>(a.x), in<T>(a.x_tilde), out<T>(a.out)});
}

template <class T, class Run> void typed_pass(const JumpArguments& a, const Run& run) {
  with_flag(a.x_tilde != nullptr, [&](auto tilde) {
    run(JumpPass<T, decltype(tilde)::value>{T(a.c), T(a.alpha), T(a.alpha_tilde), in<T>(a.sent),
                                            in<T>(a.received), out<T>(a.x), out<T>(a.x_tilde)});
  });
}

template <class T, class Run> void typed_pass(const StepArguments& a, const Run& run) {
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

template <class T, class Run> void typed_pass(const AxpyArguments& a, const Run& run) {
  run(AxpyPass<T>{T(a.a), in<T>(a.x), out<T>(a.y)});
}

template <class T, class Run> void typed_pass(const ScaleArguments& a, const Run& run) {
  run(ScalePass<T>{T(a.a), in<T>(a.x), out<T>(a.y)});
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
