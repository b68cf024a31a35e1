// SGP, stochastic gradient push: gossip with one peer at a time, on a schedule in which every rank
// reaches all others within 2 log2 n messages. Weights follow the messages (push-sum), so the
// average is right for any number of ranks and for one-way messages.
// Paper: Assran, Loizou, Ballas, Rabbat. ICML 2019. arXiv:1811.10792.
//
//   z_i = x_i / w_i                                  the parameters; w = 1 at first
//   x_i = x_i + w_i u(z_i)                           u the optimizer's step on the gradient at z_i
//   S = 2 times                                      (who sends to whom: topologies/schedule.hpp)
//     (x_j, w_j) = 1/2 (x_j, w_j) + sum_{i -> j} 1/2 (x_i, w_i)
//
// A rank stores z and w. If a message is lost, its receiver keeps its own half instead: z does not
// change, as in the RelaySum code ("SGP keeps its own model"). In this schedule each rank receives
// from one other, so w stays 1; the rule is right for any schedule.
// The graph's edges and weights are not used. Any number of ranks. If n is a power of two, log2 n
// messages average exactly, and the reference's schedule (settings.reference_schedule) needs one.
// Invariant: only steps change the sums of w and of x = w z, while no message is lost. A rank that
// leaves takes its w and x with it. The others keep theirs when the members change. A rank that
// joins starts with w = 1.
// Departure: the paper adds u, we add w u. Both are the same at w = 1; at a larger w the paper's
// steps of u / w on z are smaller.
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
  double weight_of(const Payload&) const;  // 0: the message is not usable

  double w_ = 1;  // x_ is z
  std::vector<Term> terms_;
};

}  // namespace grapevine
