// Sums and maxima that a compressor needs first, in one CPU build; included by packing.hpp. Every
// build gives the same bits.
#pragma once
#include "kernels/passes/cpu/signs.hpp"
#include "kernels/passes/cpu/sums.hpp"

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

/// Tests complete groups at once: if few places pass, most groups cost one branch.
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

}  // namespace
}  // namespace grapevine
