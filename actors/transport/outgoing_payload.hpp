// OutgoingPayload: a frame with a payload, or a parcel, that is being written into a bulk
// connection, with the position reached.
//
// On the wire: a record of 104 bytes, the payload in its memory format, and 8 bytes with the
// checksum of the encoded header or parcel and the payload. It is written piece by piece, so a
// thread may stop in the middle and leave the rest to another thread.
#pragma once
#include <sys/uio.h>

#include <array>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "actors/transport/transport.hpp"
#include "kernels/base/checksum.hpp"

namespace grapevine {

/// The header of a payload.
using BulkHeader = std::variant<FrameHeader, Parcel>;

inline uint64_t payload_bytes(const BulkHeader& h) {
  return std::visit([](const auto& one) { return payload_bytes(one); }, h);
}

struct BulkRecord {
  enum Kind : uint16_t {
    hello = 0,
    frame,
    parcel,
    memory,
    frame_in_place,
    parcel_in_place,
    release,
    line  // with one end of a memory line
  };
  static constexpr uint32_t kMagic = 0x33425647;  // "GVB3"

  uint32_t magic = kMagic;
  uint16_t kind = hello;
  uint16_t unused = 0;
  uint64_t value = 0;    // hello: the token; memory: its number
  HeaderBytes header{};  // of a frame or a parcel, also in place
};
static_assert(sizeof(BulkRecord) == 16 + kHeaderBytes);

class OutgoingPayload {
 public:
  /// `spoiled_bit`: flipped after the checksum, for plans that corrupt.
  OutgoingPayload(BulkHeader, const Payload&, std::optional<uint64_t> spoiled_bit = {});

  const BulkHeader& header() const { return header_; }
  const Lease& lease() const { return payload_.lease; }
  bool is_spoiled() const { return !spoiled_.empty(); }

  /// The next bytes, with at most a slice of the payload. The checksum of the slice is computed
  /// now, while the slice is in the cache for the socket's copy. Valid until this object moves or
  /// advance() is called.
  std::span<const iovec> next();
  void advance(size_t bytes) { sent_ += bytes; }
  bool done() const { return sent_ == total_; }

 private:
  BulkHeader header_;
  Payload payload_;
  BulkRecord record_;
  size_t total_, sent_ = 0, summed_ = 0;  // bytes: in all; sent; of the payload in the checksum
  Checksum sum_;
  uint64_t told_sum_ = 0;
  std::vector<std::byte> spoiled_;  // sent instead of the payload
  std::array<iovec, 3> pieces_{};
};

}  // namespace grapevine
