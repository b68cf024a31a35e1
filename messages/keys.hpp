// Ed25519 keys and signatures, as bytes, and the interfaces that sign and verify facts. Values.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace grapevine {

using PublicKey = std::array<uint8_t, 32>;
using Signature = std::array<uint8_t, 64>;
using Challenge = std::array<uint8_t, 16>;

/// The id of the process that has this key: its first eight bytes. 0: no key.
constexpr uint64_t id_of(const PublicKey& key) {
  uint64_t id = 0;
  for (size_t k = 0; k < sizeof id; ++k)
    id |= uint64_t{key[k]} << 8 * k;
  return id;
}

/// The process's own key for signing, and the check of others' signatures.
struct Signing {
  PublicKey key = {};
  std::function<Signature(std::span<const std::byte>)> sign;
  std::function<bool(const PublicKey&, std::span<const std::byte>, const Signature&)> holds;
};

}  // namespace grapevine
