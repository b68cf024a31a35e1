// Levels to packed bits and back, in groups of 8 (packing_passes.hpp). Included by levels.hpp.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/passes/elements_low_rank.hpp"

namespace grapevine {
namespace {

/// A complete group of 8 levels of kBits (1 to 16) bits: kBits bytes.
template <int kBits>
GV_ELEMENT void pack_group(const int32_t* levels, uint8_t* bytes) {
  uint64_t low = 0, high = 0;
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const int at = k * kBits;
    const auto level = static_cast<uint64_t>(static_cast<uint32_t>(levels[k]));
    if (at < 64) low |= level << (at & 63);
    if (at + kBits > 64) high |= at >= 64 ? level << (at & 63) : level >> ((64 - at) & 63);
  }
  __builtin_memcpy(bytes, &low, kBits < 8 ? kBits : 8);
  if constexpr (kBits > 8) __builtin_memcpy(bytes + 8, &high, kBits - 8);
}

template <int kBits>
GV_ELEMENT void unpack_group(const uint8_t* bytes, int32_t* levels) {
  uint64_t low = 0, high = 0;
  __builtin_memcpy(&low, bytes, kBits < 8 ? kBits : 8);
  if constexpr (kBits > 8) __builtin_memcpy(&high, bytes + 8, kBits - 8);
  constexpr uint64_t mask = (uint64_t{1} << kBits) - 1;
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const int at = k * kBits;
    uint64_t level = at >= 64 ? high >> (at & 63) : low >> (at & 63);
    if (at < 64 && at + kBits > 64) level |= high << ((64 - at) & 63);
    levels[k] = static_cast<int32_t>(level & mask);
  }
}

constexpr size_t kLevelBlock = 512;  // elements whose levels are kept at a time

/// Packs `size` levels, at most kLevelBlock; the array must have room for a complete last group.
template <int kBits>
void pack_levels(int32_t* levels, size_t size, uint8_t* bytes) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8, bytes += kBits)
    pack_group<kBits>(levels + i, bytes);
  if (i == size) return;
  uint8_t group[kBits];
  for (size_t k = size; k < i + 8; ++k)
    levels[k] = 0;
  pack_group<kBits>(levels + i, group);
  for (size_t k = 0; k < ((size - i) * kBits + 7) / 8; ++k)
    bytes[k] = group[k];
}

template <int kBits>
void unpack_levels(const uint8_t* bytes, size_t size, int32_t* levels) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8, bytes += kBits)
    unpack_group<kBits>(bytes, levels + i);
  if (i == size) return;
  uint8_t group[kBits] = {};
  for (size_t k = 0; k < ((size - i) * kBits + 7) / 8; ++k)
    group[k] = bytes[k];
  unpack_group<kBits>(group, levels + i);
}

template <int kBits = 1, class Body>
void with_bits(int bits, const Body& body) {
  if constexpr (kBits < 16) {
    if (bits > kBits) return with_bits<kBits + 1>(bits, body);
  }
  body(Number<kBits>{});
}

}  // namespace
}  // namespace grapevine
