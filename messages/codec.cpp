#include "messages/codec.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>

#include "messages/wire.capnp.h"

namespace grapevine {
namespace {

// A message of one segment is a table {segments - 1, words of the segment}, a root pointer, and
// the struct.
constexpr size_t kStructWords = 9;
constexpr size_t kSegmentWords = 1 + kStructWords;
constexpr size_t kMessageWords = 1 + kSegmentWords;
static_assert(kHeaderBytes == kMessageWords * sizeof(capnp::word));
static_assert(capnp::_::structSize<wire::Header>().data == kStructWords);
static_assert(capnp::_::structSize<wire::Header>().pointers == 0);

static_assert(std::endian::native == std::endian::little);  // payloads travel as they lie

// The first 16 bytes of every header: the table, and a struct pointer with offset 0, 9 words and
// no pointers.
constexpr std::array<uint8_t, 16> kPrefix{0, 0, 0, 0, kSegmentWords, 0, 0, 0,
                                          0, 0, 0, 0, kStructWords,  0, 0, 0};

static_assert(int(wire::Kind::PIECE) == int(FrameKind::piece) && kFrameKinds == 9);
static_assert(int(wire::Kind::MESSAGE) == int(FrameKind::message));
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
constexpr int kDTypes = 3;

Error refused(const std::string& what, uint64_t value, const std::string& accepted) {
  return world_error("frame refused: " + what + " " + std::to_string(value) +
                     ", accepted: " + accepted);
}

std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

HeaderBytes encode(const FrameHeader& h) {
  alignas(capnp::word) std::array<capnp::word, kSegmentWords> segment{};
  capnp::FlatMessageBuilder message(kj::arrayPtr(segment.data(), segment.size()));
  auto root = message.initRoot<wire::Header>();
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

  HeaderBytes bytes;
  std::memcpy(bytes.data(), kPrefix.data(), sizeof(capnp::word));
  std::memcpy(bytes.data() + sizeof(capnp::word), segment.data(), sizeof(segment));
  return bytes;
}

Result<FrameHeader> decode(std::span<const std::byte> bytes, uint64_t max_payload_bytes) {
  if (bytes.size() != kHeaderBytes) {
    return refused("header bytes", bytes.size(), std::to_string(kHeaderBytes));
  }
  if (std::memcmp(bytes.data(), kPrefix.data(), kPrefix.size()) != 0) {
    return world_error("frame refused: malformed, not one segment with one header struct");
  }
  // The prefix holds the only pointer there is, so an unchecked read cannot leave these words. On
  // the stack because `bytes` may lie at any address.
  alignas(capnp::word) std::array<capnp::word, kSegmentWords> segment;
  std::memcpy(segment.data(), bytes.data() + sizeof(capnp::word), sizeof(segment));
  const auto root = capnp::readMessageUnchecked<wire::Header>(segment.data());

  if (root.getVersion() != kWireVersion) {
    return refused("wire version", root.getVersion(), std::to_string(kWireVersion));
  }
  const auto kind = static_cast<int>(root.getKind());
  if (kind >= kFrameKinds) return refused("kind", kind, "0 to 8");
  const auto reason = static_cast<int>(root.getReason());
  if (reason >= kDeclineReasons) return refused("decline reason", reason, "0 to 7");
  const auto dtype = static_cast<int>(root.getDtype());
  if (dtype >= kDTypes) return refused("dtype", dtype, "0 (f32), 1 (f64) or 2 (bytes)");

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

  if (h.count != 0 && !carries_payload(h.kind)) {
    return refused("payload elements on kind " + std::to_string(kind) + ":", h.count, "none");
  }
  const uint64_t max_count = std::min(max_payload_bytes, kMaxPayloadBytes) / size_of(h.dtype);
  if (h.count > max_count) {  // compared in elements: count * size may not fit 64 bits
    return refused("payload elements", h.count, "at most " + std::to_string(max_count));
  }
  if (!std::isfinite(h.alpha_tilde) || h.alpha_tilde < 0) {
    return world_error("frame refused: alpha_tilde " + shown(h.alpha_tilde) +
                       ", accepted: finite and at least 0");
  }
  if (!(h.bound >= 0)) {
    return world_error("frame refused: bound " + shown(h.bound) + ", accepted: at least 0");
  }
  return h;
}

}  // namespace grapevine
