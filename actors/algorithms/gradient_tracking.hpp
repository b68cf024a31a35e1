// Gradient tracking: every rank estimates the mean of all ranks' steps and takes it as its step.
// Papers: Nedic, Olshevsky, Shi, SIAM J. Optim. 2017, arXiv:1607.03218; Koloskova, Lin, Stich,
// NeurIPS 2021. In the form of Vogels et al., NeurIPS 2021, arXiv:2110.04175:
//
//   y_i = x_i + u_i + c_i,   z_i = c_i + u_i         u the optimizer's step, c = 0 at first
//   x_i' = y_i + gamma sum_j W_ij (y_j - y_i)        (gossip.hpp)
//   c_i' = z_i + gamma sum_j W_ij (z_j - z_i) - u_i
//
// Requires symmetric weights whose rows sum to 1.
// Invariant: sum c = 0 and gossip keeps the mean of x, while no message is lost. A change of the
// graph sets c to 0 (d2.hpp explains why).
// Cost per rank and round: one message of two models, y and then z, to each neighbour. Memory: x,
// c, u, the optimizer.
#pragma once
#include "actors/algorithms/gossip.hpp"

namespace grapevine {

class GradientTracking final : public GossipRule {
 public:
  explicit GradientTracking(const RuleContext&);

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  /// The sum of c over all ranks is 0. A round of only some ranks changes the sum of x.
  bool conserves() const override { return GossipRule::conserves() && !gossip_.has_missed(); }
  void enter(const Neighbourhood&) override;
  size_t message_bytes() const override { return 2 * layout_.bytes(); }
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  Buffer c_, u_;
};

}  // namespace grapevine
