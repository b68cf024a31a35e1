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
// Compressed are tensors of more than one dimension with (m + n) r < m n, r = min(rank, m, n). The
// others travel raw behind them, in every iterations-th message, and m is their true difference.
//
// Both ends compute the factors from the same two messages, so nobody sends them. A message says by
// its version how many iterations its sender has made on the edge. If the two differ (one end has
// lost a message) neither moves x, and both begin anew at the larger version plus one. Equal
// versions are equal factors: a version is reached from its predecessor by both, or drawn.
//
// A column that is zero (no difference yet) or not finite is drawn anew, so no edge stays stuck;
// start=cold draws the whole input of every iteration. Draws depend on the run's seed, the two
// ranks, their incarnations, the version and the tensor alone, and are standard normal.
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
  bool warm = true;         // factors are kept from one iteration to the next
  bool cosines = false;     // warm, and nothing is drawn: element (a, j) is cos(a j)
};

/// "powergossip:rank=R,iterations=S,start=warm|cold|cosines", each part optional; empty: all of
/// them.
Result<PowerGossipSpec> parse_power_gossip(const std::string& spec);

/// Element (row, column) of a factor that is drawn.
using FactorEntry = std::function<double(Random&, size_t row, size_t column)>;
double normal_entry(Random&, size_t row, size_t column);

/// Which tensors are compressed and what a message holds: the same for all edges of all ranks.
class FactorPlan {
 public:
  FactorPlan(const ParameterLayout&, const PowerGossipSpec&, FactorEntry = normal_entry);

  /// Elements of the message of an end that has made `version` iterations.
  size_t message_size(uint32_t version) const;
  /// Bytes of the largest.
  size_t message_bytes() const;

 private:
  friend class EdgeFactors;
  struct Matrix {
    size_t offset = 0;  // in x
    LowRank shape;
    size_t p = 0, q = 0;  // where its factors lie
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

  /// Writes what is sent of x. Changes nothing.
  void encode(ConstVec x, Payload& out) const;

  /// One iteration, from the messages that crossed. Mix by c (kernels/passes/ops.hpp), then x -=
  /// alpha m, x~ -= alpha_tilde m; without x~ no mixing. False: the ends differed; nothing but the
  /// factors has changed.
  bool jump(const Payload& sent, const Payload& received, double c, double alpha,
            double alpha_tilde, Vec x, Vec x_tilde);

  void name(RuleState&);

  const ExchangeKey& edge() const { return edge_; }

 private:
  uint32_t version() const { return static_cast<uint32_t>(version_); }  // as messages say it
  bool sends_p() const { return version_ % 2 == 0; }                    // X Q; else X^T P
  void prepare();
  void begin_anew(uint32_t version);

  Execution execution_;
  std::shared_ptr<const FactorPlan> plan_;
  ExchangeKey edge_;
  bool higher_ = false;   // than the peer
  uint64_t seed_ = 0;     // the edge's own
  uint64_t version_ = 0;  // iterations made; the input of the next is orthonormal
  Buffer p_, q_;          // all tensors', one after the other
};

/// The edges of one rank of a pairwise method: factors per peer, anew with every incarnation.
class PairFactors {
 public:
  explicit PairFactors(const RuleContext&);  // compress is a spec that parses

  size_t bytes() const { return plan_->message_bytes(); }  // of the largest message
  /// The message of x mixed by c (kernels/passes/ops.hpp), of x itself where there is no twin.
  void write(const ExchangeKey&, double c, ConstVec x, ConstVec x_tilde, Payload& out);
  /// As EdgeFactors::jump. False counts as reseeded.
  bool jump(const ExchangeKey&, const Payload& sent, const Payload& received, double c,
            double alpha, double alpha_tilde, Vec x, Vec x_tilde);
  void meet(const ExchangeKey& key) { at(key); }
  void name(RuleState&);
  uint64_t reseeded() const { return reseeded_; }  // edges that began anew

 private:
  EdgeFactors& at(const ExchangeKey&);

  Execution execution_;
  std::shared_ptr<const FactorPlan> plan_;
  uint64_t seed_;
  int rank_;
  uint64_t reseeded_ = 0;
  std::vector<EdgeFactors> edges_;  // by rising peer
  Buffer mixed_;                    // x as of a snapshot, where it has a twin
};

}  // namespace grapevine
