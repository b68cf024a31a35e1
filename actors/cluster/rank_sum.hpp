// RankSum: the sum over the ranks of this node that goes into a mean. It is computed piece by
// piece, so that its actor can handle other messages between two pieces.
//
// Ranks are given one after the other. Each is checked before it is added: a rank that has
// diverged, so that its numbers are not finite, is left out. A rank without values for a vector is
// left out of that vector. Memory: the sum in fp64, and the vectors of one rank.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "actors/cluster/mean_exchange.hpp"

namespace grapevine {

class RankSum {
 public:
  /// Of the mean with this number.
  RankSum(uint64_t number, MeanShape shape);

  /// The vectors of a rank, as the shape has them; null but for the first: it has none to give.
  /// `reach`: of its guard. REQUIRES: not busy().
  void add(std::vector<std::shared_ptr<const Buffer>> vectors,
           double reach = std::numeric_limits<double>::infinity());
  bool busy() const { return !vectors_.empty(); }
  /// Goes on with one piece, of at most kMeanPieceElements elements: how many. REQUIRES: busy().
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
  bool reaches_ = false;                                // a rank has said how far
  std::vector<std::shared_ptr<const Buffer>> vectors_;  // of the rank that is being added
  bool looked_at_ = false;                              // all of it: it is finite
  uint32_t next_ = 0;                                   // piece
  int left_out_ = 0;
};

}  // namespace grapevine
