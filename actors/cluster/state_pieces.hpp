// A snapshot in pieces: how the vectors of a rank are cut for a new node, and how each piece is
// checked. Values and pure functions, for state_transfer.hpp.
//
// Every vector is cut separately, so a piece is a view into one of them: pieces 0, 1, ... of vector
// 0, then those of vector 1. Both ends know the shape from the agreed rule and layout, and so the
// size, number and position of the pieces. A manifest that differs is refused, with one exception:
// a rank whose steps a script computes has no optimizer, so a manifest may have a few vectors more
// or fewer than the new node needs. These come last (rule_state.hpp): surplus vectors are not
// fetched, and missing ones start with zero.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/memory/vec.hpp"
#include "messages/control.hpp"

namespace grapevine {

constexpr uint64_t kPieceBytes = 1 << 20;  // larger if there would be more than kMaxPieces

constexpr uint32_t kMomentsAtMost = 2;  // vectors of an optimizer

struct SnapshotShape {
  DType dtype = DType::f32;
  uint32_t vectors = 1;
  uint64_t count = 0;    // elements of each
  uint32_t numbers = 0;  // counters in the manifest
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

/// xxHash64 (Collet, 2012) with seed 0: it is no secret, but finds a flipped bit.
uint64_t piece_hash(ConstVec);

/// The shape of vectors that all have one dtype and size.
SnapshotShape shape_of(std::span<const Buffer>);
/// A manifest without hashes: hash_next() adds one for each piece.
Manifest manifest_of(std::span<const Buffer>, std::vector<uint64_t> numbers, uint64_t transfer,
                     uint64_t gradients, uint32_t ranks);
/// Adds the hash of the next piece and returns its bytes. 0: all hashes are there.
uint64_t hash_next(std::span<const Buffer>, Manifest&);

/// One line with the error in the manifest; empty: there is none.
std::string complaint_about(const Manifest&, const SnapshotShape&);

}  // namespace grapevine
