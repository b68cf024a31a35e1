// Frame: the one kind of message between two ranks: a header and a payload of numbers. Two nodes
// also exchange Parcels (parcel.hpp).
//
// Relay messages, low-rank factors and all-reduce chunks are payloads of this frame; links and
// faults work on frames and know no method. A value.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/memory/vec.hpp"

namespace grapevine {

constexpr uint32_t kRanksAtMost = 1u << 24;  // numbers of ranks end here

enum class FrameKind : uint8_t {
  // An exchange (see actors/conversations/pairwise.hpp).
  offer = 0,    // shall we do exchange `number`?
  accept = 1,   // I am in it (snapshot taken) and lack your data
  decline = 2,  // not now; I may call you
  data = 3,     // the snapshot
  ack = 4,      // I have applied it
  ask = 5,      // I am in it and lack your ack: have you applied it?
  // A synchronous round (see actors/conversations/collective.hpp).
  chunk = 6,  // part `part` of the vector in step `number`
  // A round with the neighbours (see actors/conversations/rounds.hpp).
  message = 7,  // what a rank sends in phase `part` of round `number`
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
  gone  // what was asked for was sent once, or never will be
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
  uint32_t version = 0;    // of what the payload was encoded with
  uint64_t count = 0;      // elements of the payload
  double alpha_tilde = 0;  // the sender's (offer, accept, data)
  // In data and messages, set by the sender (actors/guard): the accepted distance of the two
  // vectors, and how much of a larger difference may be applied.
  float bound = 0, allowance = 0;

  bool operator==(const FrameHeader&) const = default;
};

}  // namespace grapevine
