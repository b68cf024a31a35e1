// D2, also known as exact diffusion: gossip with a correction that removes the bias of D-PSGD.
// Papers: Tang, Lian, Yan, Zhang, Liu, "D2: Decentralized Training over Decentralized Data", ICML
// 2018, arXiv:1803.07068; Yuan, Ying, Zhao, Sayed, "Exact Diffusion", IEEE TSP 2019.
//
//   y_i = x_i + u_i + c_i                            u the optimizer's step, c = 0 at first
//   x_i' = y_i + gamma sum_j W_ij (y_j - y_i)        (gossip.hpp)
//   c_i' = x_i' - x_i - u_i
//
// so x'' = W (2 x' - x + u' - u). Requires symmetric weights and eigenvalues of W above -1/3
// (an even ring with 1/3 everywhere sits on the limit). Invariant: sum c = 0 and gossip keeps the
// mean of x, while nothing is lost. A change of the graph sets c to 0: two ranks may have heard of
// it a round apart, and what is left over in c never decays. Nor does what rounding leaves there:
// some 1e-16 |x| a round, which the gradient must hold against. Cost per rank and round: one
// message of the model to each neighbour. Memory: x, c, the optimizer.
#pragma once
#include "actors/algorithms/gossip.hpp"

namespace grapevine {

class D2 final : public GossipRule {
 public:
  explicit D2(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  /// c adds up to 0 over all ranks: a round of some of them moves the sum.
  bool conserves() const override { return GossipRule::conserves() && !gossip_.has_missed(); }
  void enter(const Neighbourhood&) override;
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  Buffer c_;
};

}  // namespace grapevine
