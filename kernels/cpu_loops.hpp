// The loops over elements of one CPU build. Included by cpu_baseline.cpp, cpu_avx2.cpp and
// cpu_avx512.cpp, which differ only in the instruction set that they are compiled for.
//
// Nothing of the standard library is called here: see passes.hpp. Sums run in 16 double lanes and
// are folded in a fixed order, so they too are the same in every build.
#pragma once
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/dispatch.hpp"

namespace grapevine {
namespace {

template <class Pass> void loop(const Pass pass, size_t first, size_t last) {
#pragma GCC ivdep
  for (size_t i = first; i < last; ++i) pass.template at<1>(i);
}

#ifdef __SSE2__
constexpr size_t kScratchBytes = 2048;

/// Whole lines, aligned on both sides, past the caches.
template <class T> void stream(const T* from, T* to) {
#ifdef __AVX512F__
  using Word = __m512i;
  const auto put = [](Word* p, Word w) { _mm512_stream_si512(p, w); };
#else
  using Word = __m128i;
  const auto put = [](Word* p, Word w) { _mm_stream_si128(p, w); };
#endif
  const auto* source = reinterpret_cast<const Word*>(from);
  auto* target = reinterpret_cast<Word*>(to);
  for (size_t k = 0; k < kScratchBytes / sizeof(Word); ++k) put(target + k, source[k]);
}

/// The loop with its written vector sent past the caches: each block is computed into a scratch
/// block that stays in the nearest cache, and streamed from there.
template <class Pass> void streamed_loop(Pass pass, size_t first, size_t last) {
  using T = typename Pass::Element;
  constexpr size_t block = kScratchBytes / sizeof(T);
  alignas(64) T scratch[block];
  T* const target = pass.written();
  const uintptr_t misaligned = reinterpret_cast<uintptr_t>(target + first) % 64;
  size_t i = first + (64 - misaligned) % 64 / sizeof(T);
  if (i >= last) return loop(pass, first, last);
  loop(pass, first, i);
  for (; i + block <= last; i += block) {
    pass.written() = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(scratch) - i * sizeof(T));
    loop(pass, i, i + block);
    stream(scratch, target + i);
  }
  _mm_sfence();  // streamed stores are not ordered with what publishes them
  pass.written() = target;
  loop(pass, i, last);
}
#else
template <class Pass> void streamed_loop(Pass pass, size_t first, size_t last) {
  loop(pass, first, last);
}
#endif

template <class Arguments>
void elementwise(bool wide, const Arguments& arguments, size_t first, size_t last) {
  with_pass(arguments, wide, [&](auto pass) {
    if constexpr (requires { pass.written(); }) {
      if (arguments.streamed) return streamed_loop(pass, first, last);
    }
    loop(pass, first, last);
  });
}

constexpr size_t kLanes = 16;

inline double fold(double (&lane)[kLanes]) {
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

/// Adds term(i) to lane i mod 16; `term` is inlined and the inner loop becomes one or a few vector
/// instructions.
template <class Term> double sum(size_t first, size_t last, const Term& term) {
  double lane[kLanes] = {};
  size_t i = first;
  for (; i + kLanes <= last; i += kLanes) {
#pragma GCC ivdep
    for (size_t l = 0; l < kLanes; ++l) lane[l] += term(i + l);
  }
  for (size_t l = 0; i < last; ++i, ++l) lane[l] += term(i);
  return fold(lane);
}

template <class T>
double deviation(const T* x, const double* reference, double* total, size_t first, size_t last) {
  return sum(first, last, [=](size_t i) __attribute__((always_inline)) {
    const double d = static_cast<double>(x[i]) - reference[i];
    total[i] += d;
    return d * d;
  });
}

template <class T> double dot(const T* x, const T* y, size_t first, size_t last) {
  return sum(first, last, [=](size_t i) __attribute__((always_inline)) {
    return static_cast<double>(x[i]) * static_cast<double>(y[i]);
  });
}

// x - x is 0 for a finite x and NaN for any other.
template <class T> bool finite(const T* x, size_t first, size_t last) {
  int others = 0;
  for (size_t i = first; i < last; ++i) others |= !(x[i] - x[i] == T(0));
  return others == 0;
}

double deviation_of(bool wide, const void* x, const double* reference, double* total, size_t first,
                    size_t last) {
  return wide ? deviation(in<double>(x), reference, total, first, last)
              : deviation(in<float>(x), reference, total, first, last);
}

double dot_of(bool wide, const void* x, const void* y, size_t first, size_t last) {
  return wide ? dot(in<double>(x), in<double>(y), first, last)
              : dot(in<float>(x), in<float>(y), first, last);
}

bool finite_of(bool wide, const void* x, size_t first, size_t last) {
  return wide ? finite(in<double>(x), first, last) : finite(in<float>(x), first, last);
}

constexpr CpuBuild build_named(const char* name) {
  return {name,
          elementwise<LookArguments>,
          elementwise<JumpArguments>,
          elementwise<StepArguments>,
          elementwise<AxpyArguments>,
          elementwise<ScaleArguments>,
          deviation_of,
          dot_of,
          finite_of};
}

}  // namespace
}  // namespace grapevine
