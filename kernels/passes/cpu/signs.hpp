// Signs to bits and back in one CPU build; included by scans.hpp.
#pragma once
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/passes/elements.hpp"
#include "kernels/passes/packing_passes.hpp"

namespace grapevine {
namespace {

/// One bit for each of 8 elements: test(i + k).
template <class Test>
GV_ELEMENT unsigned mask_of(size_t i, const Test& test) {
  unsigned mask = 0;
#pragma GCC unroll 8
  for (size_t k = 0; k < kGroup; ++k)
    mask |= static_cast<unsigned>(test(i + k)) << k;
  return mask;
}

#if defined(__AVX2__)
GV_ELEMENT unsigned sign_mask(const float* v) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_loadu_ps(v)));
}
GV_ELEMENT unsigned sign_mask(const double* v) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_loadu_pd(v)) |
                               _mm256_movemask_pd(_mm256_loadu_pd(v + 4)) << 4);
}
#elif defined(__SSE2__)
GV_ELEMENT unsigned sign_mask(const float* v) {
  return static_cast<unsigned>(_mm_movemask_ps(_mm_loadu_ps(v)) |
                               _mm_movemask_ps(_mm_loadu_ps(v + 4)) << 4);
}
GV_ELEMENT unsigned sign_mask(const double* v) {
  unsigned mask = 0;
  for (int k = 0; k < 4; ++k) {
    mask |= static_cast<unsigned>(_mm_movemask_pd(_mm_loadu_pd(v + 2 * k))) << 2 * k;
  }
  return mask;
}
#else
template <class T>
GV_ELEMENT unsigned sign_mask(const T* v) {
  return mask_of(0, [=](size_t k) { return __builtin_signbit(v[k]) != 0; });
}
#endif

template <class T>
void pack_signs(const T* v, size_t first, size_t last, uint8_t* bytes) {
  size_t i = first;
  for (; i + kGroup <= last; i += kGroup) {
    bytes[i / kGroup] = static_cast<uint8_t>(sign_mask(v + i));
  }
  if (i == last) return;
  T rest[kGroup] = {};
  for (size_t k = 0; i + k < last; ++k)
    rest[k] = v[i + k];
  bytes[i / kGroup] = static_cast<uint8_t>(sign_mask(rest));
}

template <class T>
struct SignBits;
template <>
struct SignBits<float> {
  using Word = int32_t;
  using Words [[gnu::vector_size(32)]] = int32_t;
};
template <>
struct SignBits<double> {
  using Word = int64_t;
  using Words [[gnu::vector_size(64)]] = int64_t;
};

template <class T>
void add_signs(const uint8_t* bytes, T s, size_t first, size_t last, T* y) {
  using Word = typename SignBits<T>::Word;
  using Words = typename SignBits<T>::Words;
  constexpr Words bit = {1, 2, 4, 8, 16, 32, 64, 128};
  constexpr Word sign = -(Word(1) << (8 * sizeof(T) - 2)) * 2;  // only the highest bit
  Word bits_of_s;
  __builtin_memcpy(&bits_of_s, &s, sizeof s);
  size_t i = first;
  for (; i + kGroup <= last; i += kGroup) {
    const Words terms = (((bit & Word(bytes[i / kGroup])) != 0) & sign) ^ bits_of_s;
    T term[kGroup];
    __builtin_memcpy(term, &terms, sizeof term);
#pragma GCC ivdep
    for (size_t k = 0; k < kGroup; ++k)
      y[i + k] += term[k];
  }
  for (; i < last; ++i)
    y[i] += bytes[i / kGroup] >> i % kGroup & 1 ? -s : s;
}

}  // namespace
}  // namespace grapevine
