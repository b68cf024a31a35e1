#include "actors/cluster/rank_sum.hpp"

#include <algorithm>
#include <utility>

#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

uint64_t largest_piece(const MeanShape& shape) {
  uint64_t most = 0;
  for (const MeanShape::Vector& v : shape.vectors)
    most = std::max(most, std::min(v.count, kMeanPieceElements));
  return most;
}

}  // namespace

RankSum::RankSum(uint64_t number, MeanShape shape)
    : number_(number), shape_(std::move(shape)), zero_(largest_piece(shape_), DType::f64) {
  sum_.ranks_in.resize(shape_.vectors.size());
}

void RankSum::add(std::vector<std::shared_ptr<const Buffer>> vectors, double reach) {
  GV_CHECK(!busy());
  GV_CHECK(vectors.size() == shape_.vectors.size());
  GV_CHECK(vectors.front() != nullptr);
  for (size_t k = 0; k < vectors.size(); ++k)
    if (vectors[k]) GV_CHECK(vectors[k]->size() == shape_.vectors[k].count);
  vectors_ = std::move(vectors);
  sum_.reach = std::exchange(reaches_, true) ? std::max(sum_.reach, reach) : reach;
  looked_at_ = false;
  next_ = 0;
}

/// The next piece of a vector that the rank has.
uint32_t RankSum::after(uint32_t piece) const {
  do
    ++piece;
  while (piece < shape_.pieces() && !vectors_[shape_.place_of(piece).vector]);
  return piece;
}

uint64_t RankSum::step() {
  const MeanShape::Place at = shape_.place_of(next_);
  const ConstVec x = vectors_[at.vector]->vec().part(at.offset, at.count);
  next_ = after(next_);
  const bool is_last = next_ == shape_.pieces();
  if (is_last) next_ = 0;
  if (!looked_at_) {
    looked_at_ = is_last;
    if (!all_finite({}, x)) {
      ++left_out_;
      vectors_.clear();
    }
    return at.count;
  }
  if (sum_.vectors.empty())
    for (const MeanShape::Vector& v : shape_.vectors)
      sum_.vectors.emplace_back(v.count, DType::f64);
  add_deviation({}, x, zero_.vec().part(0, at.count),
                sum_.vectors[at.vector].vec().part(at.offset, at.count));
  if (is_last) {
    for (size_t k = 0; k < vectors_.size(); ++k)
      sum_.ranks_in[k] += vectors_[k] != nullptr;
    vectors_.clear();
  }
  return at.count;
}

}  // namespace grapevine
