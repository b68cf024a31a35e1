// Sums, sizes and signs of one CPU build's packing passes, included by cpu_packing.hpp. The same
// bits in every build.
#pragma once
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/cpu_sums.hpp"
#include "kernels/packing_passes.hpp"

namespace grapevine {
namespace {

GV_ELEMENT float absolute(float v) { return __builtin_fabsf(v); }
GV_ELEMENT double absolute(double v) { return __builtin_fabs(v); }

template <class T>
double absolute_sum(const T* v, size_t first, size_t last) {
  return sum(
      first, last, [=](size_t i) __attribute__((always_inline)) {
        return static_cast<double>(absolute(v[i]));
      });
}

template <class T>
double largest(const T* v, size_t first, size_t last) {
  constexpr size_t lanes = 64;
  T lane[lanes] = {};
  size_t i = first;
  for (; i + lanes <= last; i += lanes) {
    for (size_t l = 0; l < lanes; ++l) {
      const T a = absolute(v[i + l]);
      lane[l] = a > lane[l] ? a : lane[l];
    }
  }
  T most = T(0);
  for (const T a : lane)
    most = a > most ? a : most;
  for (; i < last; ++i) {
    const T a = absolute(v[i]);
    most = a > most ? a : most;
  }
  return static_cast<double>(most);
}

/// A bit for each of 8 elements, set where test(i + k).
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

/// Whole groups are tested at once: where few places pass, most groups cost one branch.
template <class T>
size_t at_least(const T* v, T threshold, size_t first, size_t last, uint32_t* places) {
  size_t count = 0;
  size_t i = first;
  const auto take = [&](size_t at) {
    places[count] = static_cast<uint32_t>(at);
    count += absolute(v[at]) >= threshold;
  };
  for (; i + kGroup <= last; i += kGroup) {
    T below[kGroup];  // the sign bit of |v| - threshold
    for (size_t k = 0; k < kGroup; ++k)
      below[k] = absolute(v[i + k]) - threshold;
    if (sign_mask(below) == 0xff) continue;
    for (size_t k = 0; k < kGroup; ++k)
      take(i + k);
  }
  for (; i < last; ++i)
    take(i);
  return count;
}

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
void add_signs(const uint8_t* bytes, T s, size_t first, size_t last, T* y) {
  size_t i = first;
  for (; i + kGroup <= last; i += kGroup) {
    const unsigned mask = bytes[i / kGroup];
#pragma GCC ivdep
    for (size_t k = 0; k < kGroup; ++k)
      y[i + k] += mask & (1u << k) ? -s : s;
  }
  for (; i < last; ++i)
    y[i] += bytes[i / kGroup] >> i % kGroup & 1 ? -s : s;
}

}  // namespace
}  // namespace grapevine
