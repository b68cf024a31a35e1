// GASLoC: gossip of outer steps, for comparison. The momentum is the one of each rank's own
// parameters before averaging. Paper: arXiv:2606.11081. Its code is not public and its constants
// are not known, so the value of gamma (--outer-momentum) is ours.
//
//   y_i     = theta_i - eta g_i                  g_i minus the sum of the inner steps
//   theta_i = (y_i + y_j) / 2 + gamma (y_i - y_i of the round before)
//                                                j from a random matching, a new one each round
//
// eta is the learning rate (--outer-lr). If a message is far, the rank takes a smaller share than
// the half. If it is lost, or the rank has no partner, y_i replaces y_j. At a rate of 0 gamma is 0
// too. Ranks drift apart for gamma above about 0.795 with 4 ranks, 0.744 with 8, 0.711 with 64.
// Invariant: the mean of theta follows the equation with the mean of y, while no message is lost.
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
  Buffer before_;  // y of the last round
};

}  // namespace grapevine
