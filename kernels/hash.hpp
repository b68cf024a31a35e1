// fnv1a: the 64-bit FNV-1a hash of bytes (Fowler, Noll, Vo). Recognises; protects from nobody.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/vec.hpp"

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

}  // namespace grapevine
