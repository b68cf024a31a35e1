// Moniqua's passes of one CPU build and their noise, included by cpu_packing.hpp.
#pragma once
#include "kernels/cpu_levels.hpp"

namespace grapevine {
namespace {

constexpr int kMoniquaBits = 2;

/// t modulo 1, in [-1/2, 1/2).
template <class T>
GV_ELEMENT T centred(T t) {
  return t - whole(t + T(0.5));
}

template <class T>
void moniqua(const MoniquaArguments& g, const uint16_t* noise, size_t first, size_t last,
             uint8_t* bytes) {
  const T inverse = T(1 / (6 * g.theta));
  level_blocks(first, last, [&](size_t i, size_t n) {
    int32_t levels[kLevelBlock];
    const T* x = in<T>(g.x) + i;
    const uint16_t* random = noise + (i - first);
    for (size_t k = 0; k < n; ++k) {
      const T u = (centred(x[k] * inverse) + T(0.5)) * T(3);
      levels[k] = level_of(u + (T(random[k]) + T(0.5)) * T(0x1p-16), T(3));
    }
    pack_levels<kMoniquaBits>(levels, n, bytes + i / kGroup * kMoniquaBits);
  });
}

template <class T>
void moniqua_add(const MoniquaArguments& g, size_t first, size_t last, const uint8_t* sent,
                 const uint8_t* received) {
  const T inverse = T(1 / (6 * g.theta)), a = T(g.a * 6 * g.theta), third = T(1. / 3);
  level_blocks(first, last, [&](size_t i, size_t n) {
    int32_t ours[kLevelBlock], theirs[kLevelBlock];
    unpack_levels<kMoniquaBits>(sent + i / kGroup * kMoniquaBits, n, ours);
    unpack_levels<kMoniquaBits>(received + i / kGroup * kMoniquaBits, n, theirs);
    const T* x = in<T>(g.x) + i;
    T* y = out<T>(g.y) + i;
#pragma GCC ivdep
    for (size_t k = 0; k < n; ++k) {
      const T mine = centred(x[k] * inverse) + T(0.5);  // in units of B
      y[k] += a * (centred(T(theirs[k]) * third - mine) - centred(T(ours[k]) * third - mine));
    }
  });
}

/// Ten rounds of Philox4x32 on 16 counters at a time (kernels/random.hpp has the one for a few).
void noise(const uint32_t key[2], const uint32_t counter[4], uint32_t first, uint32_t last,
           uint16_t* to) {
  constexpr uint32_t lanes = 16;
  for (uint32_t block = first; block < last; block += lanes) {
    uint32_t c[4][lanes];
    for (uint32_t l = 0; l < lanes; ++l) {
      c[0][l] = block + l;
      for (int w = 1; w < 4; ++w)
        c[w][l] = counter[w];
    }
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
      for (uint32_t l = 0; l < lanes; ++l) {
        const uint64_t p0 = uint64_t{0xD2511F53} * c[0][l], p1 = uint64_t{0xCD9E8D57} * c[2][l];
        c[0][l] = static_cast<uint32_t>(p1 >> 32) ^ c[1][l] ^ k0;
        c[1][l] = static_cast<uint32_t>(p1);
        c[2][l] = static_cast<uint32_t>(p0 >> 32) ^ c[3][l] ^ k1;
        c[3][l] = static_cast<uint32_t>(p0);
      }
    }
    const uint32_t count = last - block < lanes ? last - block : lanes;
    for (uint32_t l = 0; l < count; ++l, to += 8) {
      for (int w = 0; w < 4; ++w) {
        to[2 * w] = static_cast<uint16_t>(c[w][l]);
        to[2 * w + 1] = static_cast<uint16_t>(c[w][l] >> 16);
      }
    }
  }
}

}  // namespace
}  // namespace grapevine
