// NoLoCo: outer steps with momentum that pairs of ranks take together, for comparison.
// Paper: Kolehmainen et al. arXiv:2506.10911, in the form of its published code.
//
//   theta'_i  = theta_i - g_i                    g_i minus the sum of the inner steps
//   d_i       = mu d_i + eta ((theta'_i + theta'_j) / 2 - theta_i)
//   theta_i  += d_i                              j from a random matching, a new one each round
//
// eta is the learning rate, mu the momentum (--outer-lr, --outer-momentum; 0.7 and 0.5 in the
// paper). If a message is far, the rank takes a smaller share than the half. If it is lost, or the
// rank has no partner, theta'_i replaces theta'_j. At a rate of 0 a rank does not move.
// Invariant: the mean of theta takes heavy-ball steps on the mean of g, while no message is lost.
// An exchange does not keep the sum of theta, because its jump enters the momentum.
// Cost per rank and round: one message of the model to one rank. Memory: theta, u, d.
#pragma once
#include "actors/algorithms/outer_pair_rule.hpp"

namespace grapevine {

class NoLoCo final : public OuterPairRule {
 public:
  explicit NoLoCo(const RuleContext&);

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  Buffer d_;
};

}  // namespace grapevine
