// SGP, stochastic gradient push: gossip with one peer at a time, along a graph on which every rank
// meets all others within 2 log2 n messages. Weights follow what was sent (push-sum), so the
// average is right for any number of ranks and for one-way messages.
// Paper: Assran, Loizou, Ballas, Rabbat. ICML 2019. arXiv:1811.10792.
//
//   z_i = x_i / w_i                                  the parameters; w = 1 at first
//   x_i = x_i + u(z_i)                               u the optimizer's step on the gradient at z_i
//   S = 2 times                                      (who sends to whom: topologies/schedule.hpp)
//     (x_j, w_j) = 1/2 (x_j, w_j) + sum_{i -> j} 1/2 (x_i, w_i)
//
// What is held is z and w: u acts on z as u / w. Where a message is lost, its receiver keeps its
// own half in place of it: z stays what it was, as in the RelaySum code ("SGP keeps its own
// model"). Along the schedule each rank hears of one other, so w stays 1; the rule is right for
// any.
// The graph's edges and weights play no role. Any number of ranks; with n a power of two, log2 n
// messages average exactly, and the reference's schedule (settings.reference_schedule) asks for
// one.
// Invariant: the sum of w is n, that of x changes by steps alone, while nothing is lost. A change
// of the members sets w to 1 and keeps z.
// Cost per rank and round: two messages, each x and w in the layout's dtype (d + 1 numbers), to one
// rank. Memory: z, the optimizer.
#pragma once
#include "actors/algorithms/rule.hpp"

namespace grapevine {

class PushSum final : public RoundRule {
 public:
  static constexpr int kPhases = 2;  // S of the paper

  explicit PushSum(const RuleContext& context) : RoundRule(context) {}

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  void add_conserved(double now, Vec sum) override;
  bool conserves() const override { return false; }  // a half is under way
  RuleCounts counts() const override { return {.push_weight = w_}; }
  void enter(const Neighbourhood&) override;
  int phases() const override { return kPhases; }
  size_t message_bytes() const override { return layout_.bytes() + size_of(dtype()); }
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Payload> in) override;

 private:
  double w_ = 1;  // x_ is z
  std::vector<Term> terms_;
};

}  // namespace grapevine
