// Hashes that are printed, seed a random stream or name a record, and therefore never change:
// fnv1a, the 64-bit FNV-1a hash of bytes (Fowler, Noll, Vo), and folded, which hashes numbers. They
// identify data and do not protect against attacks. Use Checksum to detect changed bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/memory/vec.hpp"

namespace grapevine {

constexpr uint64_t kHashStart = 0xcbf29ce484222325;

/// The hash of `bytes` appended to the data whose hash is `start`.
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

/// The finaliser of splitmix64: every input bit changes half of the output bits on average.
inline uint64_t mixed(uint64_t h) {
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  h = (h ^ h >> 27) * 0x94d049bb133111eb;
  return h ^ h >> 31;
}

inline uint64_t folded(uint64_t h, uint64_t value) {
  return mixed(h * 31 + value + 0x9e3779b97f4a7c15);
}

}  // namespace grapevine
