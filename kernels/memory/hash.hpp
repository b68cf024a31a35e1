// Hashes that are told, seed a stream or name a record, and so stay as they are for ever: fnv1a,
// the 64-bit FNV-1a hash of bytes (Fowler, Noll, Vo), and folded, numbers into one. They recognise
// and protect from nobody. What only notices changed bytes is a Checksum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/memory/vec.hpp"

namespace grapevine {

constexpr uint64_t kHashStart = 0xcbf29ce484222325;

/// Of `bytes` after what `start` is the hash of.
inline uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t start = kHashStart) {
  uint64_t hash = start;
  for (const std::byte b : bytes)
    hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return hash;
}

inline uint64_t fnv1a(std::string_view text, uint64_t start = kHashStart) {
  return fnv1a(std::as_bytes(std::span(text)), start);
}

inline uint64_t fnv1a(const ConstVec& x, uint64_t start = kHashStart) {
  return fnv1a(std::span(static_cast<const std::byte*>(x.data), x.bytes()), start);
}

/// The finaliser of splitmix64: every bit of the input moves half of the output's.
inline uint64_t mixed(uint64_t h) {
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  h = (h ^ h >> 27) * 0x94d049bb133111eb;
  return h ^ h >> 31;
}

inline uint64_t folded(uint64_t h, uint64_t value) {
  return mixed(h * 31 + value + 0x9e3779b97f4a7c15);
}

}  // namespace grapevine
