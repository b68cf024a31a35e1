// The codec: FrameHeader and Parcel to bytes and back, by the Cap'n Proto schema in wire.capnp.
//
// An encoded frame or parcel is a header of exactly kHeaderBytes, followed by `count` elements of
// payload, little-endian, in their memory format. So a payload is never copied for encoding.
// decode() validates once; a decoded value needs no further check, except against the receiver's
// own knowledge (the sender, the vector, the transfer).
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "kernels/base/result.hpp"
#include "messages/frame.hpp"
#include "messages/parcel.hpp"

namespace grapevine {

constexpr uint16_t kWireVersion = 2;
constexpr size_t kHeaderBytes = 88;
constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 32;  // a link announces its own limit

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encode(const FrameHeader&);
HeaderBytes encode(const Parcel&);

/// `bytes` is only the header. Refuses, with one line: a wrong length; a malformed or cut message;
/// another wire version; an unknown kind, reason or dtype; a payload above `max_payload_bytes`; an
/// alpha_tilde that is negative or not finite; a bound that is negative or NaN; a payload on a kind
/// that carries none.
Result<FrameHeader> decode(std::span<const std::byte> bytes, uint64_t max_payload_bytes);

/// `bytes` are the bytes before the payload. Refuses, with one line, what decode() refuses, and
/// also: no payload; an offset or count whose size does not fit 64 bits; a mean whose payload is no
/// numbers; a sum that is neither fp64 nor packed, or that has more than kRanksAtMost ranks; a
/// piece beyond kMaxPieces; a nonzero value in a field that the kind does not have.
Result<Parcel> decode_parcel(std::span<const std::byte> bytes, uint64_t max_payload_bytes);

constexpr uint64_t payload_bytes(const FrameHeader& h) { return h.count * size_of(h.dtype); }
constexpr uint64_t payload_bytes(const Parcel& p) { return p.count * size_of(p.dtype); }
constexpr uint64_t frame_bytes(const FrameHeader& h) { return kHeaderBytes + payload_bytes(h); }

}  // namespace grapevine
