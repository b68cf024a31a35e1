// RankSum: the sum over the ranks of this node that goes into a mean. It is computed piece by
// piece, so that its actor can handle other messages between two pieces.
//
// Ranks are added one after the other. Each is checked first: a rank with numbers that are not
// finite has diverged and is left out. A rank without values for a vector is left out of that
// vector. Memory: the sum in fp64, and the vectors of one rank.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "actors/cluster/mean_exchange.hpp"

namespace grapevine {

class RankSum {
 public:
  /// For the mean with this number.
  RankSum(uint64_t number, MeanShape shape);

  /// The vectors of a rank, in the order of the shape. Any but the first may be null: the rank has
  /// no values for it. `reach`: from its guard. REQUIRES: not busy().
  void add(std::vector<std::shared_ptr<const Buffer>> vectors,
           double reach = std::numeric_limits<double>::infinity());
  bool busy() const { return !vectors_.empty(); }
  /// Handles the next piece, of at most kMeanPieceElements elements; returns its size. REQUIRES:
  /// busy().
  uint64_t step();

  uint64_t number() const { return number_; }
  int left_out() const { return left_out_; }  // ranks
  MeanSum take() { return std::move(sum_); }  // without ranks: no vectors

 private:
  uint32_t after(uint32_t piece) const;

  const uint64_t number_;
  const MeanShape shape_;
  const Buffer zero_;
  MeanSum sum_;
  bool reaches_ = false;                                // a rank has a finite reach
  std::vector<std::shared_ptr<const Buffer>> vectors_;  // of the present rank
  bool looked_at_ = false;                              // all pieces are checked and finite
  uint32_t next_ = 0;                                   // the next piece
  int left_out_ = 0;
};

}  // namespace grapevine
