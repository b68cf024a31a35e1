#include "messages/codec.hpp"

#include <fmt/core.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/base/spec.hpp"
#include "messages/wire.capnp.h"

namespace grapevine {
namespace {

// A message of one segment is: a table {segments - 1, words of the segment}, a root pointer, and
// the struct.
constexpr size_t kStructWords = 9;
constexpr size_t kSegmentWords = 1 + kStructWords;
constexpr size_t kMessageWords = 1 + kSegmentWords;
static_assert(kHeaderBytes == kMessageWords * sizeof(capnp::word));
static_assert(capnp::_::structSize<wire::Header>().data == kStructWords);
static_assert(capnp::_::structSize<wire::Header>().pointers == 0);
static_assert(capnp::_::structSize<wire::Parcel>().data == kStructWords);
static_assert(capnp::_::structSize<wire::Parcel>().pointers == 0);

// Payloads are sent in their memory format.
static_assert(std::endian::native == std::endian::little);

// The first 16 bytes of every header: the table, and a struct pointer with offset 0, 9 words and
// no pointers.
constexpr std::array<uint8_t, 16> kPrefix{0, 0, 0, 0, kSegmentWords, 0, 0, 0,
                                          0, 0, 0, 0, kStructWords,  0, 0, 0};

static_assert(int(wire::Kind::MESSAGE) == int(FrameKind::message) && kFrameKinds == 8);
static_assert(int(wire::Kind::CHUNK) == int(FrameKind::chunk));
static_assert(int(wire::Kind::ASK) == int(FrameKind::ask));
static_assert(int(wire::Kind::ACK) == int(FrameKind::ack));
static_assert(int(wire::Kind::DATA) == int(FrameKind::data));
static_assert(int(wire::Kind::DECLINE) == int(FrameKind::decline));
static_assert(int(wire::Kind::ACCEPT) == int(FrameKind::accept));
static_assert(int(wire::Kind::OFFER) == int(FrameKind::offer));
static_assert(int(wire::Reason::GONE) == int(DeclineReason::gone) && kDeclineReasons == 8);
static_assert(int(wire::Reason::NO_BUFFER) == int(DeclineReason::no_buffer));
static_assert(int(wire::Reason::EPOCH) == int(DeclineReason::epoch));
static_assert(int(wire::Reason::OLDER_CALLER) == int(DeclineReason::older_caller));
static_assert(int(wire::Reason::REPEAT) == int(DeclineReason::repeat));
static_assert(int(wire::Reason::NOT_YET) == int(DeclineReason::not_yet));
static_assert(int(wire::Reason::BUSY) == int(DeclineReason::busy));
static_assert(int(wire::ElementType::F64) == int(DType::f64));
static_assert(int(wire::ElementType::BYTES) == int(DType::bytes));
static_assert(int(wire::ElementType::BF16) == int(DType::bf16));
static_assert(int(wire::Way::DOWN) == int(MeanPiece::Way::down));
constexpr int kFrameDTypes = 4, kParcelDTypes = 3;

Error refused(const std::string& what, uint64_t value, const std::string& accepted) {
  return world_error(fmt::format("frame refused: {} {}, accepted: {}", what, value, accepted));
}

Error parcel_refused(const std::string& what, const std::string& value,
                     const std::string& accepted) {
  return world_error(fmt::format("parcel refused: {} {}, accepted: {}", what, value, accepted));
}

Error parcel_refused(const std::string& what, uint64_t value, const std::string& accepted) {
  return parcel_refused(what, std::to_string(value), accepted);
}

// An array of numbers, because words of Cap'n Proto cannot be copied.
using Segment = std::array<uint64_t, kSegmentWords>;
static_assert(sizeof(Segment) == kSegmentWords * sizeof(capnp::word));

/// A message whose root has this type; `fill` sets the root.
template <class Root, class Fill>
HeaderBytes encoded(Fill fill) {
  alignas(capnp::word) Segment segment{};
  capnp::FlatMessageBuilder message(
      kj::arrayPtr(reinterpret_cast<capnp::word*>(segment.data()), segment.size()));
  fill(message.initRoot<Root>());
  HeaderBytes bytes;
  std::memcpy(bytes.data(), kPrefix.data(), sizeof(capnp::word));
  std::memcpy(bytes.data() + sizeof(capnp::word), segment.data(), sizeof(segment));
  return bytes;
}

bool has_prefix(std::span<const std::byte> bytes) {
  return std::memcmp(bytes.data(), kPrefix.data(), kPrefix.size()) == 0;
}

/// A copy on the stack, because `bytes` may be unaligned. The prefix contains the only pointer, so
/// an unchecked read cannot leave these words.
Segment segment_of(std::span<const std::byte> bytes) {
  Segment segment;
  std::memcpy(segment.data(), bytes.data() + sizeof(capnp::word), sizeof(segment));
  return segment;
}

/// The limit in elements, because count * size may not fit 64 bits.
uint64_t most_elements(uint64_t max_payload_bytes, DType dtype) {
  return std::min(max_payload_bytes, kMaxPayloadBytes) / size_of(dtype);
}

}  // namespace

HeaderBytes encode(const FrameHeader& h) {
  return encoded<wire::Header>([&h](wire::Header::Builder root) {
    root.setVersion(kWireVersion);
    root.setKind(static_cast<wire::Kind>(h.kind));
    root.setReason(static_cast<wire::Reason>(h.reason));
    root.setDtype(static_cast<wire::ElementType>(h.dtype));
    root.setFrom(h.from);
    root.setTo(h.to);
    root.setFromIncarnation(h.from_incarnation);
    root.setToIncarnation(h.to_incarnation);
    root.setPart(h.part);
    root.setPayloadVersion(h.version);
    root.setEpoch(h.epoch);
    root.setNumber(h.number);
    root.setCount(h.count);
    root.setAlphaTilde(h.alpha_tilde);
    root.setBound(h.bound);
    root.setAllowance(h.allowance);
  });
}

Result<FrameHeader> decode(std::span<const std::byte> bytes, uint64_t max_payload_bytes) {
  if (bytes.size() != kHeaderBytes) {
    return refused("header bytes", bytes.size(), std::to_string(kHeaderBytes));
  }
  if (!has_prefix(bytes)) {
    return world_error("frame refused: malformed, not one segment with one header struct");
  }
  alignas(capnp::word) const Segment segment = segment_of(bytes);
  const auto root = capnp::readMessageUnchecked<wire::Header>(
      reinterpret_cast<const capnp::word*>(segment.data()));

  if (root.getVersion() != kWireVersion) {
    return refused("wire version", root.getVersion(), std::to_string(kWireVersion));
  }
  const auto kind = static_cast<int>(root.getKind());
  if (kind >= kFrameKinds) return refused("kind", kind, "0 to 7");
  const auto reason = static_cast<int>(root.getReason());
  if (reason >= kDeclineReasons) return refused("decline reason", reason, "0 to 7");
  const auto dtype = static_cast<int>(root.getDtype());
  if (dtype >= kFrameDTypes)
    return refused("dtype", dtype, "0 (f32), 1 (f64), 2 (bytes) or 3 (bf16)");

  FrameHeader h;
  h.kind = static_cast<FrameKind>(kind);
  h.reason = static_cast<DeclineReason>(reason);
  h.dtype = static_cast<DType>(dtype);
  h.from = root.getFrom();
  h.to = root.getTo();
  h.from_incarnation = root.getFromIncarnation();
  h.to_incarnation = root.getToIncarnation();
  h.epoch = root.getEpoch();
  h.number = root.getNumber();
  h.part = root.getPart();
  h.version = root.getPayloadVersion();
  h.count = root.getCount();
  h.alpha_tilde = root.getAlphaTilde();
  h.bound = root.getBound();
  h.allowance = root.getAllowance();

  if (h.count != 0 && !carries_payload(h.kind)) {
    return refused(fmt::format("payload elements on kind {}:", kind), h.count, "none");
  }
  const uint64_t max_count = most_elements(max_payload_bytes, h.dtype);
  if (h.count > max_count) {
    return refused("payload elements", h.count, fmt::format("at most {}", max_count));
  }
  if (!std::isfinite(h.alpha_tilde) || h.alpha_tilde < 0) {
    return world_error(fmt::format("frame refused: alpha_tilde {}, accepted: finite and at least 0",
                                   shown(h.alpha_tilde)));
  }
  if (!(h.bound >= 0)) {
    return world_error(
        fmt::format("frame refused: bound {}, accepted: at least 0", shown(double{h.bound})));
  }
  if (!(h.allowance >= 0)) {
    return world_error(fmt::format("frame refused: allowance {}, accepted: at least 0",
                                   shown(double{h.allowance})));
  }
  return h;
}

// --- parcels

namespace {

void fill(wire::Parcel::Builder root, const MeanPiece& m) {
  auto piece = root.initMeanPiece();
  piece.setWay(static_cast<wire::Way>(m.way));
  piece.setVector(m.vector);
  piece.setMean(m.mean);
  piece.setOffset(m.offset);
  piece.setRanks(m.ranks);
}

void fill(wire::Parcel::Builder root, const StatePiece& m) {
  auto piece = root.initStatePiece();
  piece.setPiece(m.piece);
  piece.setTransfer(m.transfer);
}

Status judge(const MeanPiece& m, const Parcel& p) {
  if (p.dtype == (m.way == MeanPiece::Way::up ? DType::f32 : DType::bytes))
    return parcel_refused("dtype of a mean", static_cast<uint64_t>(p.dtype),
                          "fp64 or packed on the way up, numbers on the way down");
  if (m.ranks > kRanksAtMost)
    return parcel_refused("ranks in a mean", m.ranks, fmt::format("up to {}", kRanksAtMost));
  if (m.offset > ~uint64_t{0} - p.count)
    return parcel_refused("first element", m.offset, "so that the last one fits 64 bits");
  return Done{};
}

Status judge(const StatePiece& m, const Parcel&) {
  if (m.piece >= kMaxPieces)
    return parcel_refused("piece", m.piece, fmt::format("below {}", kMaxPieces));
  return Done{};
}

/// REQUIRES: which() and a mean piece's way are known.
Parcel value_of(wire::Parcel::Reader root) {
  Parcel p;
  p.dtype = static_cast<DType>(root.getDtype());
  p.count = root.getCount();
  switch (root.which()) {
    case wire::Parcel::MEAN_PIECE: {
      const auto m = root.getMeanPiece();
      p.what = MeanPiece{static_cast<MeanPiece::Way>(m.getWay()), m.getMean(), m.getVector(),
                         m.getOffset(), m.getRanks()};
      break;
    }
    case wire::Parcel::STATE_PIECE:
      p.what = StatePiece{root.getStatePiece().getTransfer(), root.getStatePiece().getPiece()};
      break;
  }
  return p;
}

}  // namespace

HeaderBytes encode(const Parcel& p) {
  return encoded<wire::Parcel>([&p](wire::Parcel::Builder root) {
    root.setVersion(kWireVersion);
    root.setDtype(static_cast<wire::ElementType>(p.dtype));
    root.setCount(p.count);
    std::visit([&root](const auto& what) { fill(root, what); }, p.what);
  });
}

Result<Parcel> decode_parcel(std::span<const std::byte> bytes, uint64_t max_payload_bytes) {
  if (bytes.size() != kHeaderBytes)
    return parcel_refused("bytes", bytes.size(), std::to_string(kHeaderBytes));
  if (!has_prefix(bytes))
    return world_error("parcel refused: malformed, not one segment with one struct");
  alignas(capnp::word) const Segment segment = segment_of(bytes);
  const auto root = capnp::readMessageUnchecked<wire::Parcel>(
      reinterpret_cast<const capnp::word*>(segment.data()));
  if (root.getVersion() != kWireVersion)
    return parcel_refused("wire version", root.getVersion(), std::to_string(kWireVersion));
  const auto kind = static_cast<int>(root.which());
  if (kind > static_cast<int>(wire::Parcel::STATE_PIECE))
    return parcel_refused("kind", static_cast<uint64_t>(kind), "0 to 1");
  const auto dtype = static_cast<int>(root.getDtype());
  if (dtype >= kParcelDTypes)
    return parcel_refused("dtype", static_cast<uint64_t>(dtype), "0 (f32), 1 (f64) or 2 (bytes)");
  if (root.isMeanPiece() && root.getMeanPiece().getWay() > wire::Way::DOWN)
    return parcel_refused("way", static_cast<uint64_t>(root.getMeanPiece().getWay()), "0 to 1");

  Parcel p = value_of(root);
  const uint64_t most = most_elements(max_payload_bytes, p.dtype);
  if (p.count == 0 || p.count > most)
    return parcel_refused("payload elements", p.count, fmt::format("1 to {}", most));
  const Status valid = std::visit([&p](const auto& what) { return judge(what, p); }, p.what);
  if (!valid) return valid.error();
  const HeaderBytes again = encode(p);
  if (std::memcmp(again.data(), bytes.data(), kHeaderBytes) != 0)
    return world_error("parcel refused: something in fields that its kind does not have");
  return p;
}

}  // namespace grapevine
