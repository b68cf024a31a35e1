// SGP, stochastic gradient push: gossip with one peer at a time, along a graph on which every rank
// meets all others within 2 log2 n messages. Weights follow what was sent (push-sum), so the
// average is right for any number of ranks and for one-way messages.
// Paper: Assran, Loizou, Ballas, Rabbat. ICML 2019. arXiv:1811.10792.
//
//   z_i = x_i / w_i                                  the parameters; w = 1 at first
//   x_i = x_i + w_i u(z_i)                           u the optimizer's step on the gradient at z_i
//   S = 2 times                                      (who sends to whom: topologies/schedule.hpp)
//     (x_j, w_j) = 1/2 (x_j, w_j) + sum_{i -> j} 1/2 (x_i, w_i)
//
// What is held is z and w. Where a message is lost, its receiver keeps its own half in place of it:
// z stays what it was, as in the RelaySum code ("SGP keeps its own model"). Along the schedule each
// rank hears of one other, so w stays 1; the rule is right for any.
// The graph's edges and weights play no role. Any number of ranks; with n a power of two, log2 n
// messages average exactly, and the reference's schedule (settings.reference_schedule) asks for
// one.
// Invariant: the sums of w and of x = w z change by steps alone, while nothing is lost. A rank that
// leaves takes its w and x with it. The others keep theirs when the members change; a newcomer
// begins with w = 1.
// Departure: the paper adds u, not w u. Both are the same at w = 1; at a larger w steps of u / w on
// z would be smaller.
// Cost per rank and round: two messages, each x and w in the layout's dtype (d + 1 numbers), to one
// rank. Memory: z, the optimizer.
#pragma once
#include "actors/algorithms/rule.hpp"

namespace grapevine {

class PushSum final : public RoundRule {
 public:
  static constexpr int kPhases = 2;  // S of the paper

  explicit PushSum(const RuleContext& context) : RoundRule(context) {}

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void add_conserved(double now, Vec sum) override;
  bool conserves() const override { return false; }  // a half is under way
  RuleCounts counts() const override { return {.push_weight = w_}; }
  int phases() const override { return kPhases; }
  size_t message_bytes() const override { return layout_.bytes() + size_of(dtype()); }
  void write(int phase, size_t edge, Payload& out) override;
  double distance(size_t edge, const Payload&) override;  // of z_j from z
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  double weight_of(const Payload&) const;  // 0: it is of no use

  double w_ = 1;  // x_ is z
  std::vector<Term> terms_;
};

}  // namespace grapevine
