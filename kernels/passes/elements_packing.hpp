// The arithmetic of compressor.hpp and moniqua.hpp that the CPU and CUDA share (see elements.hpp).
#pragma once
#include "kernels/passes/elements.hpp"

namespace grapevine {
namespace {

/// v limited to [0, top]; 0 for a NaN.
template <class T>
GV_ELEMENT int32_t level_of(T v, T top) {
  v = v > T(0) ? v : T(0);
  v = v < top ? v : top;
  return static_cast<int32_t>(v);
}

constexpr int kMoniquaBits = 2;

/// t modulo 1, in [-1/2, 1/2]. Adding and subtracting a large number rounds t to a whole number,
/// because the sum has no bits for a fraction.
GV_ELEMENT float centred(float t) { return t - ((t + 0x1.8p23f) - 0x1.8p23f); }
GV_ELEMENT double centred(double t) { return t - ((t + 0x1.8p52) - 0x1.8p52); }

/// `inverse` is 1 / B.
template <class T>
GV_ELEMENT int32_t moniqua_level(T x, uint16_t noise, T inverse) {
  const T u = (centred(x * inverse) + T(0.5)) * T(3);
  return level_of(u + (T(noise) + T(0.5)) * T(0x1p-16), T(3));
}

/// z_theirs - z_ours, in units of B.
template <class T>
GV_ELEMENT T moniqua_difference(T x, int32_t ours, int32_t theirs, T inverse) {
  const T mine = centred(x * inverse) + T(0.5);
  const T received = centred(T(theirs) * T(1. / 3) - mine);
  return received - centred(T(ours) * T(1. / 3) - mine);
}

}  // namespace
}  // namespace grapevine
