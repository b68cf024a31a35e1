// The loops over elements of one CPU build. baseline.cpp, avx2.cpp and avx512.cpp include it; they
// differ only in the instruction set that they are compiled for.
//
// It calls nothing of the standard library: see passes.hpp.
#pragma once
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/passes/cpu/low_rank.hpp"
#include "kernels/passes/cpu/packing.hpp"
#include "kernels/passes/cpu/sums.hpp"

namespace grapevine {
namespace {

template <class Pass>
void loop(const Pass pass, size_t first, size_t last) {
#pragma GCC ivdep
  for (size_t i = first; i < last; ++i)
    pass.template at<1>(i);
}

#ifdef __SSE2__
constexpr size_t kScratchBytes = 2048;

/// Streams complete cache lines, aligned on both sides, past the caches.
template <class T>
void stream(const T* from, T* to) {
#ifdef __AVX512F__
  using Word = __m512i;
  const auto put = [](Word* p, Word w) { _mm512_stream_si512(p, w); };
#else
  using Word = __m128i;
  const auto put = [](Word* p, Word w) { _mm_stream_si128(p, w); };
#endif
  const auto* source = reinterpret_cast<const Word*>(from);
  auto* target = reinterpret_cast<Word*>(to);
  for (size_t k = 0; k < kScratchBytes / sizeof(Word); ++k)
    put(target + k, source[k]);
}

/// The loop with streaming stores: each block is computed into a scratch block, which stays in the
/// L1 cache, and streamed from there.
template <class Pass>
void streamed_loop(Pass pass, size_t first, size_t last) {
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
  _mm_sfence();  // streaming stores are otherwise not ordered before the publishing store
  pass.written() = target;
  loop(pass, i, last);
}
#else
template <class Pass>
void streamed_loop(Pass pass, size_t first, size_t last) {
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

bool take_of(bool wide, const TakeArguments& arguments, size_t first, size_t last) {
  int others = 0;
  with_pass(arguments, wide, [&](const auto pass) {
    int seen = 0;
#pragma GCC ivdep
    for (size_t i = first; i < last; ++i)
      seen |= !pass.template at<1>(i);
    others = seen;
  });
  return others == 0;
}

template <class... Arguments>
constexpr Slots<CpuLoop, Arguments...> loops_of(const Slots<CpuLoop, Arguments...>&) {
  return {{elementwise<Arguments>}...};
}

constexpr CpuBuild build_named(const char* name) {
  return {name,
          {loops_of(RuleSlots<CpuLoop>{}), loops_of(VectorSlots<CpuLoop>{})},
          take_of,
          deviation_of,
          dot_of,
          distance_of,
          rounded_distance_of,
          finite_of,
          low_rank_build(),
          packing_build()};
}

}  // namespace
}  // namespace grapevine
