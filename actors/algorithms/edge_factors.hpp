// EdgeFactors: the low-rank factors P and Q of one edge, one pair per tensor, equal at both ends.
// Paper: Vogels, Karimireddy, Jaggi. PowerGossip, NeurIPS 2020. arXiv:2008.01425.
//
// One iteration k = version + 1 on D = X_higher - X_lower (by rank), for every m x n tensor:
//
//   k odd    both send X Q      P = X_higher Q - X_lower Q        m r numbers
//   k even   both send X^T P    Q = X_higher^T P - X_lower^T P    n r numbers
//
//   x -= alpha m,  m = +-P Q^T in place of x - x_peer            + at the higher rank
//   then the new factor is orthonormalised: it is the input of k + 1
//
// Tensors of more than one dimension with (m + n) r < m n are compressed, r = min(rank, m, n). The
// others are sent raw after them, in every iterations-th message, and m is their true difference.
//
// Both ends compute the factors from the same two messages, so no rank sends factors. The version
// of a message is the number of iterations that its sender has made on the edge. If the two differ
// (one end has lost a message), neither end changes x, and both start again at the larger version
// plus one. Equal versions mean equal factors: both ends reach a version from the one before, or
// draw it.
//
// A column that is zero (no difference yet) or not finite is drawn again, so no edge stays at zero;
// start=cold draws the whole input of every iteration. Draws are standard normal and depend only on
// the run's seed, the two ranks, their incarnations, the version and the tensor.
// Memory: (m + n) r numbers per edge and compressed tensor. CPU memory.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/algorithms/rule.hpp"
#include "kernels/base/random.hpp"
#include "kernels/base/result.hpp"
#include "kernels/passes/low_rank.hpp"

namespace grapevine {

struct PowerGossipSpec {
  size_t rank = 1;
  uint32_t iterations = 1;  // of a round
  bool warm = true;         // keep the factors from one iteration to the next
  bool cosines = false;     // with warm; element (a, j) is cos(a j) instead of a draw
};

/// "powergossip:rank=R,iterations=S,start=warm|cold|cosines", each part optional; empty: the
/// defaults.
Result<PowerGossipSpec> parse_power_gossip(const std::string& spec);

/// Element (row, column) of a drawn factor.
using FactorEntry = std::function<double(Random&, size_t row, size_t column)>;
double normal_entry(Random&, size_t row, size_t column);

/// Which tensors are compressed, and the contents of a message: the same for all edges of all
/// ranks.
class FactorPlan {
 public:
  FactorPlan(const ParameterLayout&, const PowerGossipSpec&, FactorEntry = normal_entry);

  /// Elements in the message of an end that has made `version` iterations.
  size_t message_size(uint32_t version) const;
  /// Elements of the largest message.
  size_t largest_message() const;

 private:
  friend class EdgeFactors;
  struct Matrix {
    size_t offset = 0;  // in x
    LowRank shape;
    size_t p = 0, q = 0;  // places of its factors
    size_t size() const { return shape.rows * shape.columns; }
  };
  struct Run {  // neighbouring raw tensors
    size_t offset = 0, count = 0;
  };
  bool carries_raw(uint32_t version) const { return version % spec_.iterations == 0; }

  PowerGossipSpec spec_;
  FactorEntry entry_;
  DType dtype_;
  std::vector<Matrix> matrices_;
  std::vector<Run> raw_;
  size_t p_size_ = 0, q_size_ = 0, raw_size_ = 0;
};

class EdgeFactors {
 public:
  EdgeFactors(const Execution&, std::shared_ptr<const FactorPlan>, uint64_t seed, int rank,
              const ExchangeKey& edge);

  /// Writes the message of x. Changes nothing. With `exact`, memory of x's type for the largest
  /// message, the message is rounded to bf16.
  void encode(ConstVec x, Payload& out, Vec exact = {}) const;

  /// One iteration, from the messages that crossed: mixes by c (kernels/passes/ops.hpp), then x -=
  /// alpha m, x~ -= alpha_tilde m; without x~ no mixing. False: the ends differed, and only the
  /// factors have changed.
  bool jump(const Payload& sent, const Payload& received, double c, double alpha,
            double alpha_tilde, Vec x, Vec x_tilde);

  void name(RuleState&);

  const ExchangeKey& edge() const { return edge_; }

 private:
  uint32_t version() const { return static_cast<uint32_t>(version_); }  // as in messages
  bool sends_p() const { return version_ % 2 == 0; }                    // X Q; else X^T P
  void prepare();
  void begin_anew(uint32_t version);

  Execution execution_;
  std::shared_ptr<const FactorPlan> plan_;
  ExchangeKey edge_;
  bool higher_ = false;   // than the peer
  uint64_t seed_ = 0;     // of the edge
  uint64_t version_ = 0;  // iterations made; the input of the next one is orthonormal
  Buffer p_, q_;          // of all tensors, one after the other
};

/// The edges of one rank of a pairwise method: factors per peer, new ones for each incarnation.
class PairFactors {
 public:
  PairFactors(const RuleContext&, DType sent_as);  // REQUIRES: compress is a valid spec

  /// Of the largest message.
  size_t bytes() const { return plan_->largest_message() * size_of(sent_as_); }
  /// The message of x mixed by c (kernels/passes/ops.hpp); without x~, of x itself.
  void write(const ExchangeKey&, double c, ConstVec x, ConstVec x_tilde, Payload& out);
  /// As EdgeFactors::jump. If it returns false, `reseeded` grows.
  bool jump(const ExchangeKey&, const Payload& sent, const Payload& received, double c,
            double alpha, double alpha_tilde, Vec x, Vec x_tilde);
  void meet(const ExchangeKey& key) { at(key); }
  void name(RuleState&);
  uint64_t reseeded() const { return reseeded_; }  // edges that started again

 private:
  EdgeFactors& at(const ExchangeKey&);

  Execution execution_;
  std::shared_ptr<const FactorPlan> plan_;
  uint64_t seed_;
  int rank_;
  uint64_t reseeded_ = 0;
  std::vector<EdgeFactors> edges_;  // by rising peer
  DType sent_as_;
  Buffer mixed_;  // x at a snapshot, if the rule has x~
  Buffer exact_;  // a message before it is rounded; null: it is not
};

}  // namespace grapevine
