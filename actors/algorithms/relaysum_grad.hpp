// RelaySum/Grad: relays the steps instead of the models.
// Paper: Vogels et al. NeurIPS 2021. arXiv:2110.04175 (RelaySum/Grad).
//
//   m_ij       u relayed (relay.hpp)          u the optimizer's step
//   x_i += (u_i + sum_j m_ji) / n             a message that is late or lost counts as 0
//
// Requires a tree. Every step reaches every rank once, but the ranks never agree: a fixed point has
// x_i = c + (lr / n) sum_j delta_ij g_j(x_j), with delta_ij = max(hops(i, j) - 1, 0). Its error
// grows with the learning rate, the tree's depth and the difference of the data. RelaySGD does not
// have this error.
// Invariant: while no message is lost and the tree stays, x_i and x_j have moved by the same steps,
// except those under way. A message is never used twice, for any Missing: its steps would count
// twice.
// Cost per rank and round: one message of d + 1 numbers to each neighbour. Memory: x, u, the
// optimizer, one message of each neighbour.
#pragma once
#include "actors/algorithms/relay.hpp"

namespace grapevine {

class RelaySumGrad final : public RelayRule {
 public:
  explicit RelaySumGrad(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  /// The mean length of a step of the ranks behind the edge.
  double distance(size_t edge, const Payload&) override;
  ConstVec step() override { return u_.vec(); }

 private:
  ConstVec said() const override { return u_; }
  void take_in(size_t tree) override;

  Buffer u_;
};

}  // namespace grapevine
