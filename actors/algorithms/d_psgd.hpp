// D-PSGD: decentralized parallel SGD, the plain gossip baseline.
// Paper: Lian, Zhang, Zhang, Hsieh, Zhang, Liu. NeurIPS 2017. arXiv:1705.09056.
//
//   h_i = x_i + u_i                                  u the optimizer's step
//   x_i = h_i + gamma sum_j W_ij (h_j - h_i)         gamma = 1: x = W h   (gossip.hpp)
//
// Requirements symmetric weights whose rows sum to 1.
// Invariant: gossip keeps the mean of x while nothing is lost.
// Cost per rank and round: one message of the model to each neighbour. Memory: x, the optimizer.
#pragma once
#include "actors/algorithms/gossip.hpp"

namespace grapevine {

class DPsgd final : public RoundRule {
 public:
  explicit DPsgd(const RuleContext& context) : RoundRule(context), gossip_(context.settings) {}

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void enter(const Neighbourhood&) override;
  size_t message_bytes() const override { return layout_.bytes(); }
  void write(int phase, size_t edge, Payload& out) override;
  void combine(double now, int phase, std::span<const Payload> in) override;

 private:
  Gossip gossip_;
};

}  // namespace grapevine
