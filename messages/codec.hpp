// The codec: FrameHeader to bytes and back, by the Cap'n Proto schema in wire.capnp.
//
// An encoded frame is a header message of exactly kHeaderBytes followed by count elements of
// payload in little-endian order, as they lie in memory. So a payload is never copied to be
// encoded. A frame is validated here, once: what decode returns needs no further check.
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "kernels/result.hpp"
#include "messages/frame.hpp"

namespace grapevine {

constexpr uint16_t kWireVersion = 1;
constexpr size_t kHeaderBytes = 88;
constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 32;  // a link announces its own

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encode(const FrameHeader&);

/// `bytes` is the header alone. Refuses, with one line: a wrong length, a malformed or cut
/// message, another wire version, an unknown kind, reason or dtype, a payload above
/// `max_payload_bytes`, an alpha_tilde that is not finite or negative, a bound that is
/// negative or no number, a payload on a kind that
/// carries none.
Result<FrameHeader> decode(std::span<const std::byte> bytes, uint64_t max_payload_bytes);

constexpr uint64_t payload_bytes(const FrameHeader& h) { return h.count * size_of(h.dtype); }
constexpr uint64_t frame_bytes(const FrameHeader& h) { return kHeaderBytes + payload_bytes(h); }

}  // namespace grapevine
