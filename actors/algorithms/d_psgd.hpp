// D-PSGD: decentralized parallel SGD, the plain gossip baseline.
// Paper: Lian, Zhang, Zhang, Hsieh, Zhang, Liu. NeurIPS 2017. arXiv:1705.09056.
//
//   h_i = x_i + u_i                                  u the optimizer's step
//   x_i = h_i + gamma sum_j W_ij (h_j - h_i)         gamma = 1: x = W h   (gossip.hpp)
//
// Requires symmetric weights whose rows sum to 1.
// Invariant: gossip keeps the mean of x while no message is lost.
// Cost per rank and round: one message of the model to each neighbour. Memory: x, the optimizer.
#pragma once
#include "actors/algorithms/gossip.hpp"

namespace grapevine {

class DPsgd final : public GossipRule {
 public:
  using GossipRule::GossipRule;

  void combine(double now, int phase, std::span<const Received> in) override;
};

}  // namespace grapevine
