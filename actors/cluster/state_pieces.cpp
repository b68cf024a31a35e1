#include "actors/cluster/state_pieces.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/checksum.hpp"

namespace grapevine {

uint64_t piece_hash(ConstVec v) { return xxhash64(v.data, v.bytes()); }

uint64_t piece_bytes(const SnapshotShape& shape) {
  const uint64_t most = std::max<uint64_t>(kMaxPieces / std::max(shape.vectors, 1u), 1);
  const uint64_t least = (shape.vector_bytes() + most - 1) / most;
  return std::max(kPieceBytes, (least + 63) / 64 * 64);
}

uint32_t pieces_per_vector(const SnapshotShape& shape) {
  const uint64_t bytes = piece_bytes(shape);
  return static_cast<uint32_t>((shape.vector_bytes() + bytes - 1) / bytes);
}

uint32_t piece_count(const SnapshotShape& shape) {
  return shape.vectors * pieces_per_vector(shape);
}

PiecePlace place_of(const SnapshotShape& shape, uint32_t piece) {
  GV_CHECK(piece < piece_count(shape));
  const uint32_t each = pieces_per_vector(shape);
  const uint64_t step = piece_bytes(shape) / size_of(shape.dtype);
  const uint64_t offset = piece % each * step;
  return {piece / each, offset, std::min(step, shape.count - offset)};
}

SnapshotShape shape_of(std::span<const Buffer> vectors) {
  GV_CHECK(!vectors.empty());
  for (const Buffer& v : vectors)
    GV_CHECK((v.size() == vectors[0].size() && v.dtype() == vectors[0].dtype()));
  return {vectors[0].dtype(), static_cast<uint32_t>(vectors.size()), vectors[0].size()};
}

Manifest manifest_of(std::span<const Buffer> vectors, std::vector<uint64_t> numbers,
                     uint64_t transfer, uint64_t gradients, uint32_t ranks) {
  const SnapshotShape shape = shape_of(vectors);
  Manifest m;
  m.transfer = transfer;
  m.dtype = shape.dtype;
  m.vectors = shape.vectors;
  m.count = shape.count;
  m.ranks = ranks;
  m.gradients = gradients;
  m.numbers = std::move(numbers);
  m.piece_bytes = piece_bytes(shape);
  return m;
}

uint64_t hash_next(std::span<const Buffer> vectors, Manifest& m) {
  const SnapshotShape shape = shape_of(vectors);
  if (m.hashes.size() == piece_count(shape)) return 0;
  const PiecePlace at = place_of(shape, static_cast<uint32_t>(m.hashes.size()));
  const ConstVec piece = vectors[at.vector].vec().part(at.offset, at.count);
  m.hashes.push_back(piece_hash(piece));
  return piece.bytes();
}

std::string complaint_about(const Manifest& m, const SnapshotShape& shape) {
  if (!m.refused.empty()) return m.refused;
  const auto differs = [](const char* what, uint64_t is, uint64_t accepted) {
    return std::string(what) + " " + std::to_string(is) + ", accepted: " + std::to_string(accepted);
  };
  if (m.dtype != shape.dtype) {
    return differs("manifest of dtype", static_cast<uint64_t>(m.dtype),
                   static_cast<uint64_t>(shape.dtype));
  }
  const uint32_t most = shape.vectors + kMomentsAtMost;
  if (m.vectors == 0 || m.vectors > most)
    return fmt::format("manifest of vectors {}, accepted: 1 to {}", m.vectors, most);
  SnapshotShape given = shape;
  given.vectors = m.vectors;
  if (m.count != shape.count) return differs("manifest of elements", m.count, shape.count);
  if (m.piece_bytes != piece_bytes(given)) {
    return differs("manifest of piece bytes", m.piece_bytes, piece_bytes(given));
  }
  if (m.hashes.size() != piece_count(given)) {
    return differs("manifest of pieces", m.hashes.size(), piece_count(given));
  }
  if (m.numbers.size() != shape.numbers)
    return differs("manifest of counters", m.numbers.size(), shape.numbers);
  if (m.ranks == 0) return "manifest of ranks 0, accepted: at least 1";
  return "";
}

}  // namespace grapevine
