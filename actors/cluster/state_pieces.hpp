// A snapshot in pieces: how the vectors of a rank are cut for a new node, and how each piece is
// checked. Values and pure functions, for state_transfer.hpp.
//
// Every vector is cut separately, so a piece is a view into one of them: pieces 0, 1, ... of vector
// 0, then those of vector 1. Both ends know the shape from the agreed rule and layout, and so the
// size, number and position of the pieces. A manifest that differs is refused. One exception: a
// rank whose steps a script computes has no optimizer, so a manifest may have a few vectors more
// than the new node needs, or fewer. Those come last (rule_state.hpp): surplus vectors are not
// fetched, and missing ones start with zero.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/memory/vec.hpp"
#include "messages/control.hpp"

namespace grapevine {

constexpr uint64_t kPieceBytes = 1 << 20;  // unless that would be more than kMaxPieces

constexpr uint32_t kMomentsAtMost = 2;  // vectors of an optimizer

struct SnapshotShape {
  DType dtype = DType::f32;
  uint32_t vectors = 1;
  uint64_t count = 0;    // elements of each
  uint32_t numbers = 0;  // counters that go along
  bool operator==(const SnapshotShape&) const = default;

  uint64_t vector_bytes() const { return count * size_of(dtype); }
};

uint64_t piece_bytes(const SnapshotShape&);
uint32_t pieces_per_vector(const SnapshotShape&);
uint32_t piece_count(const SnapshotShape&);

struct PiecePlace {
  uint32_t vector = 0;
  uint64_t offset = 0, count = 0;  // elements
};
PiecePlace place_of(const SnapshotShape&, uint32_t piece);  // REQUIRES: piece < piece_count

/// xxHash64 (Collet, 2012) with seed 0: no secret, but a flipped bit does not pass.
uint64_t piece_hash(ConstVec);

/// Of vectors that all have one dtype and size.
SnapshotShape shape_of(std::span<const Buffer>);
/// Without hashes: hash_next() for each piece makes it whole.
Manifest manifest_of(std::span<const Buffer>, std::vector<uint64_t> numbers, uint64_t transfer,
                     uint64_t gradients, uint32_t ranks);
/// Adds the hash of the next piece: how many bytes that was. 0: it has them all.
uint64_t hash_next(std::span<const Buffer>, Manifest&);

/// One line that says what is wrong with it, empty if nothing is.
std::string complaint_about(const Manifest&, const SnapshotShape&);

}  // namespace grapevine
