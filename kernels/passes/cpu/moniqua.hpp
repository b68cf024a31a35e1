// Moniqua's passes of one CPU build, and their noise; included by packing.hpp.
#pragma once
#include "kernels/passes/cpu/levels.hpp"

namespace grapevine {
namespace {

template <class T>
void moniqua_levels(const T* x, const uint16_t* noise, size_t size, T inverse, int32_t* levels) {
#pragma GCC ivdep
  for (size_t k = 0; k < size; ++k)
    levels[k] = moniqua_level(x[k], noise[k], inverse);
}

template <class T>
void moniqua(const MoniquaArguments& g, const uint16_t* noise, size_t first, size_t last,
             uint8_t* bytes) {
  const T inverse = T(1 / (6 * g.theta));
  level_blocks(first, last, [&](size_t i, size_t n) {
    int32_t levels[kLevelBlock];
    moniqua_levels(in<T>(g.x) + i, noise + (i - first), n, inverse, levels);
    pack_levels<kMoniquaBits>(levels, n, bytes + i / kGroup * kMoniquaBits);
  });
}

template <class T>
void moniqua_add(const MoniquaArguments& g, size_t first, size_t last, const uint8_t* sent,
                 const uint8_t* received) {
  const T inverse = T(1 / (6 * g.theta)), a = T(g.a * 6 * g.theta);
  level_blocks(first, last, [&](size_t i, size_t n) {
    int32_t ours[kLevelBlock], theirs[kLevelBlock];
    unpack_levels<kMoniquaBits>(sent + i / kGroup * kMoniquaBits, n, ours);
    unpack_levels<kMoniquaBits>(received + i / kGroup * kMoniquaBits, n, theirs);
    const T* x = in<T>(g.x) + i;
    T* y = out<T>(g.y) + i;
#pragma GCC ivdep
    for (size_t k = 0; k < n; ++k)
      y[k] += a * moniqua_difference(x[k], ours[k], theirs[k], inverse);
  });
}

constexpr uint32_t kPhiloxLanes = 32;

/// One round of Philox4x32 on many counters at a time; word w of counter l is c[w][l].
inline void philox_round(uint32_t (&c)[4][kPhiloxLanes], uint32_t k0, uint32_t k1) {
  uint32_t high0[kPhiloxLanes], high1[kPhiloxLanes];
  for (uint32_t l = 0; l < kPhiloxLanes; ++l) {
    high0[l] = static_cast<uint32_t>(uint64_t{0xD2511F53} * c[0][l] >> 32);
    high1[l] = static_cast<uint32_t>(uint64_t{0xCD9E8D57} * c[2][l] >> 32);
  }
  for (uint32_t l = 0; l < kPhiloxLanes; ++l) {
    const uint32_t low0 = 0xD2511F53 * c[0][l], low1 = 0xCD9E8D57 * c[2][l];
    c[0][l] = high1[l] ^ c[1][l] ^ k0;
    c[1][l] = low1;
    c[2][l] = high0[l] ^ c[3][l] ^ k1;
    c[3][l] = low0;
  }
}

/// The generator of kernels/base/random.hpp for many numbers.
void noise(const uint32_t key[2], const uint32_t counter[4], uint32_t first, uint32_t last,
           uint16_t* to) {
  for (uint32_t block = first; block < last; block += kPhiloxLanes) {
    uint32_t c[4][kPhiloxLanes];
    for (uint32_t l = 0; l < kPhiloxLanes; ++l) {
      c[0][l] = block + l;
      for (int w = 1; w < 4; ++w)
        c[w][l] = counter[w];
    }
    for (uint32_t round = 0; round < 10; ++round) {
      philox_round(c, key[0] + round * 0x9E3779B9, key[1] + round * 0xBB67AE85);
    }
    const uint32_t count = last - block < kPhiloxLanes ? last - block : kPhiloxLanes;
    for (uint32_t l = 0; l < count; ++l, to += 8) {
      const uint32_t words[4] = {c[0][l], c[1][l], c[2][l], c[3][l]};
      __builtin_memcpy(to, words, sizeof words);  // the low half of each word first
    }
  }
}

}  // namespace
}  // namespace grapevine
