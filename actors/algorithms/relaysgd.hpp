// RelaySGD: SGD with averages that a tree relays. They are exact and late instead of inexact and at
// once, so different data on the ranks cause no bias.
// Paper: Vogels et al. NeurIPS 2021. arXiv:2110.04175, algorithm 1 (RelaySum/Model).
//
//   y_i = x_i + u_i                       u the optimizer's step
//   m_ij, c_ij                            relayed (relay.hpp)
//   S_i = y_i + sum_j m_ji
//   n_i = 1   + sum_j c_ji
//
//   counts     x = S_i / n_i                                     the paper's and the default
//   own        x = (S_i + (n - n_i) y_i) / n
//   x0         x = (S_i + (n - n_i) x^0) / n                     x^0 the initial point
//   previous   x = (S_i + (n - n_i) x_i) / n                     x_i before this round's step
//
// They differ while contributions are missing. When n_i = n all give x_i = (1/n) sum_j y_j, with
// y_j of max(hops(i, j) - 1, 0) rounds ago. If n_i > n (a rank has left and its last messages are
// under way), x = S_i / n_i.
//
// Learning rate: a step acts as if divided by 1 + the mean of that delay over all pairs, so
// `relay_lr` multiplies the rate by this number.
//
// Requires a tree, or several on the same ranks.
// Invariant: each average has each rank at most once, and exactly once when n_i = n. The mean of x
// is not conserved: a part of it is under way.
// Cost per rank and round: one message of d + 1 numbers to each neighbour (K trees: relay.hpp).
// Memory: x, the optimizer, one message of each neighbour; x^0 for `x0`, x_i for `previous`; two
// more models if K > 1.
#pragma once
#include "actors/algorithms/relay.hpp"

namespace grapevine {

class RelaySgd : public RelayRule {
 public:
  explicit RelaySgd(const RuleContext& context)
      : RelaySgd(context, context.settings.missing == Missing::reuse) {}

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;

 protected:
  RelaySgd(const RuleContext&, bool reuses);

  ConstVec said() const override { return x_; }

 private:
  void take_in(size_t tree) override;

  Buffer filler_;  // x^0 or x_i, if the normalisation uses it
};

}  // namespace grapevine
