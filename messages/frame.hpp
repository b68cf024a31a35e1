// Frame: the only kind of message between two ranks: a header and a payload of numbers. Two nodes
// also exchange Parcels (parcel.hpp).
//
// Relay messages, low-rank factors and all-reduce chunks are payloads of this frame; links and
// faults work on frames and know no method. A value.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/memory/vec.hpp"

namespace grapevine {

constexpr uint32_t kRanksAtMost = 1u << 24;  // numbers of ranks are at most this

enum class FrameKind : uint8_t {
  // An exchange (see actors/conversations/pairwise.hpp).
  offer = 0,    // asks for exchange `number`
  accept = 1,   // the sender is in the exchange (snapshot taken) and lacks the data
  decline = 2,  // not now; the sender may call later
  data = 3,     // the snapshot
  ack = 4,      // the sender has applied the data
  ask = 5,      // the sender is in the exchange and asks for the ack
  // A synchronous round (see actors/conversations/collective.hpp).
  chunk = 6,  // part `part` of the vector in step `number`
  // A round with the neighbours (see actors/conversations/rounds.hpp).
  message = 7,  // a rank's message in phase `part` of round `number`
};
constexpr int kFrameKinds = 8;

constexpr bool carries_payload(FrameKind kind) {
  return kind == FrameKind::data || kind >= FrameKind::chunk;
}

enum class DeclineReason : uint8_t {
  none = 0,
  busy,
  not_yet,
  repeat,
  older_caller,
  epoch,
  no_buffer,
  gone  // the requested message was sent once, or never will be
};
constexpr int kDeclineReasons = 8;

struct FrameHeader {
  FrameKind kind = FrameKind::offer;
  DeclineReason reason = DeclineReason::none;  // of a decline
  DType dtype = DType::f32;                    // of the payload
  uint32_t from = 0, to = 0;                   // ranks
  uint32_t from_incarnation = 0, to_incarnation = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;     // of the exchange on this edge, or of the round
  uint32_t part = 0;       // attempt of an offer, or part of a round
  uint32_t version = 0;    // of the state that encoded the payload
  uint64_t count = 0;      // elements of the payload
  double alpha_tilde = 0;  // the sender's (offer, accept, data)
  // In data and messages, set by the sender (actors/guard): the accepted distance of the two
  // vectors, and the part of a larger difference that may be applied.
  float bound = 0, allowance = 0;

  bool operator==(const FrameHeader&) const = default;
};

}  // namespace grapevine
