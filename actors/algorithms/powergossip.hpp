// PowerGossip: gossip in which a message is one side of a power iteration on the difference of two
// models.
// Paper: Vogels, Karimireddy, Jaggi. NeurIPS 2020. arXiv:2008.01425.
//
//   s times:   x_i -= gamma W_ij D_ij    for every edge at once, all D_ij of the same x
//              D_ij = P Q^T instead of x_i - x_j, one iteration of edge_factors.hpp
//   x_i += u_i                           u_i the optimizer's step on the gradient before the gossip
//
// s = iterations is the number of phases of a round, each with its own messages and averaging. rank
// and start (warm or cold) are described in edge_factors.hpp. Both ends move by the same P Q^T, so
// gamma is the only step size, and gamma = 1 always works.
//
// Departures from the published code. That code gossips tensors of one dimension with gamma = 1 for
// any gamma; here one gamma holds for all. It compresses tensors even if they get larger. It skips
// its first s iterations.
//
// Requires symmetric weights. Any `Missing`: a lost message changes nothing on its edge in that
// phase. Edges that stay in a new epoch keep their factors. Invariant: gossip keeps the mean of x
// while no message is lost. Cost per rank and round: s messages to each neighbour. The odd ones of
// an edge have sum m r numbers and the even ones sum n r, over the compressed m x n tensors; one of
// s also has the raw tensors. Memory: x twice, the optimizer, and sum (m + n) r per neighbour.
#pragma once
#include "actors/algorithms/edge_factors.hpp"
#include "actors/algorithms/rule.hpp"

namespace grapevine {

class PowerGossip final : public RoundRule {
 public:
  /// REQUIRES: settings.compress is empty or a valid spec.
  explicit PowerGossip(const RuleContext&, const FactorEntry& = normal_entry);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void enter(const Neighbourhood&) override;
  int phases() const override { return phases_; }
  bool broadcasts() const override { return false; }
  size_t message_bytes() const override {
    return plan_->largest_message() * size_of(layout_.dtype());
  }
  void write(int phase, size_t edge, Payload& out) override;
  /// The norm of the difference, as far as the two messages show it.
  double distance(size_t edge, const Payload&) override;
  bool ends_agree() const override { return true; }
  void combine(double now, int phase, std::span<const Received> in) override;
  RuleCounts counts() const override;

 private:
  struct Edge {
    EdgeFactors factors;
    Payload sent;  // in the present phase
  };

  int phases_;
  std::shared_ptr<const FactorPlan> plan_;
  std::vector<Edge> edges_;  // in the order of near_.neighbours
  Buffer gossiped_;          // x without this round's step
  uint64_t reseeded_ = 0;
};

}  // namespace grapevine
