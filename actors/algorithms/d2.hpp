// D2, also known as exact diffusion: gossip with a correction that removes the bias of D-PSGD.
// Papers: Tang, Lian, Yan, Zhang, Liu, "D2: Decentralized Training over Decentralized Data", ICML
// 2018, arXiv:1803.07068; Yuan, Ying, Zhao, Sayed, "Exact Diffusion", IEEE TSP 2019.
//
//   y_i = x_i + u_i + c_i                            u the optimizer's step, c = 0 at first
//   x_i' = y_i + gamma sum_j W_ij (y_j - y_i)        (gossip.hpp)
//   c_i' = x_i' - x_i - u_i
//
// so x'' = W (2 x' - x + u' - u). Requires symmetric weights and eigenvalues of W above -1/3 (an
// even ring with 1/3 everywhere is at the limit). Invariant: sum c = 0 and gossip keeps the mean of
// x, while no message is lost. A change of the graph sets c to 0: two ranks may learn of it a round
// apart, and the rest in c would never decay. Rounding errors in c do not decay either: they are
// about 1e-16 |x| a round, and the gradients must outweigh them. Cost per rank and round: one
// message of the model to each neighbour. Memory: x, c, the optimizer.
#pragma once
#include "actors/algorithms/gossip.hpp"

namespace grapevine {

class D2 final : public GossipRule {
 public:
  explicit D2(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  /// The sum of c over all ranks is 0. A round of only some ranks changes the sum of x.
  bool conserves() const override { return GossipRule::conserves() && !gossip_.has_missed(); }
  void enter(const Neighbourhood&) override;
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  Buffer c_;
};

}  // namespace grapevine
