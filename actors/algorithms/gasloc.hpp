// GASLoC: gossip of outer steps whose momentum is that of what a rank would hold by itself, for
// comparison. Paper: arXiv:2606.11081, of which no code is public; its constants are not known, and
// gamma (--outer-momentum) is ours.
//
//   y_i     = theta_i - eta g_i                  g_i minus the sum of the inner steps
//   theta_i = (y_i + y_j) / 2 + gamma (y_i - y_i of the round before)
//                                                j of a matching of all ranks, another each round
//
// eta is the learning rate (--outer-lr). Of a message that is far a share is taken in place of the
// half; where it is lost, or a rank is alone in its round, y_i stands in for y_j. At a rate of 0
// gamma is 0 too. Ranks drift apart above a gamma of about 0.795 for 4 ranks, 0.744 for 8, 0.711
// for 64.
// Invariant: the mean of theta follows the equation with the mean of y, while nothing is lost.
// Cost per rank and round: one message of the model to one rank. Memory: theta, u, y.
#pragma once
#include "actors/algorithms/outer_pair_rule.hpp"

namespace grapevine {

class Gasloc final : public OuterPairRule {
 public:
  explicit Gasloc(const RuleContext&);

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  Buffer before_;  // y of the round before
};

}  // namespace grapevine
