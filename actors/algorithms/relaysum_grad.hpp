// RelaySum/Grad: relays the steps instead of the models.
// Paper: Vogels et al. NeurIPS 2021. arXiv:2110.04175 (RelaySum/Grad).
//
//   m_ij       u relayed (relay.hpp)          u the optimizer's step
//   x_i += (u_i + sum_j m_ji) / n             what has not come, or was lost, counts as 0
//
// Requirements a tree. Every step reaches every rank once, but the ranks never agree: a fixed point
// has x_i = c + (lr / n) sum_j delta_ij g_j(x_j), delta_ij = max(hops(i, j) - 1, 0), and its error
// grows with the learning rate, the tree's depth and how the data differ. RelaySGD has none of it.
// Invariant: while nothing is lost and the tree stays, x_i has moved by the same steps as x_j, but
// for those under way. A message is never used twice, whatever Missing says: its steps would be.
// Cost per rank and round: one message of d + 1 numbers to each neighbour. Memory: x, u, the
// optimizer, one message of each neighbour.
#pragma once
#include "actors/algorithms/relay.hpp"

namespace grapevine {

class RelaySumGrad final : public RoundRule {
 public:
  explicit RelaySumGrad(const RuleContext&);

  void reset(double now, ConstVec x) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void enter(const Neighbourhood&) override;
  bool broadcasts() const override { return false; }
  size_t message_bytes() const override { return relay_.message_bytes(); }
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Payload> in) override;
  bool conserves() const override { return false; }
  RuleCounts counts() const override { return {.relay_count = count_}; }

 private:
  Relay relay_;
  Buffer u_;
  double count_ = 1;
};

}  // namespace grapevine
