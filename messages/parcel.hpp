// Parcel: a payload between two nodes rather than two ranks: a piece of a mean, or a piece of a
// rank's state. Values; their fields describe the content. The payload follows: `count` elements of
// `dtype`.
#pragma once
#include <cstdint>
#include <variant>

#include "kernels/memory/vec.hpp"
#include "messages/frame.hpp"

namespace grapevine {

/// A piece of a mean over ranks, sent along the tree of its number (actors/cluster/mean_exchange).
struct MeanPiece {
  enum class Way : uint8_t {
    up = 0,  // a sum over the sender's subtree: fp64, or packed bytes (mean_sums.hpp)
    down     // the mean, with the root's bits
  };
  Way way = Way::up;
  uint64_t mean = 0;    // its number
  uint32_t vector = 0;  // which of the averaged vectors
  uint64_t offset = 0;  // of the first element, in that vector
  uint32_t ranks = 0;   // up: in the sum; down: in the mean. 0: all have diverged
  bool operator==(const MeanPiece&) const = default;
};

/// Asks a neighbour in that tree for pieces of a mean, counted over all vectors: from `from` to
/// below `until`. Without `again`, the pieces before `from` have arrived, and earlier requests may
/// still be on their way.
struct MeanAsk {
  MeanPiece::Way way = MeanPiece::Way::up;
  bool again = false;
  uint64_t mean = 0;  // its number
  uint32_t from = 0, until = 0;
  bool operator==(const MeanAsk&) const = default;
};

constexpr size_t kMaxPieces = 4096;  // of a snapshot

/// A piece of a snapshot of one rank's state; it is checked against its hash in the Manifest.
struct StatePiece {
  uint64_t transfer = 0;  // the requester's number
  uint32_t piece = 0;
  bool operator==(const StatePiece&) const = default;
};

struct Parcel {
  std::variant<MeanPiece, StatePiece> what;
  DType dtype = DType::f32;
  uint64_t count = 0;
  bool operator==(const Parcel&) const = default;
};

}  // namespace grapevine
