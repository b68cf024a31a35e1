// NoLoCo: outer steps with momentum that two ranks take together, for comparison.
// Paper: Kolehmainen et al. arXiv:2506.10911, as its published code has it.
//
//   theta'_i  = theta_i - g_i                    g_i minus the sum of the inner steps
//   d_i       = mu d_i + eta ((theta'_i + theta'_j) / 2 - theta_i)
//   theta_i  += d_i                              j of a matching of all ranks, another each round
//
// eta is the learning rate, mu the momentum (--outer-lr, --outer-momentum; the paper's are 0.7 and
// 0.5). Of a message that is far a share is taken in place of the half; where it is lost, or a rank
// is alone in its round, theta'_i stands in for theta'_j. At a rate of 0 a rank does not move.
// Invariant: the mean of theta takes heavy-ball steps on the mean of g, while nothing is lost. The
// sum of theta is not kept by an exchange, whose jump enters the momentum.
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
