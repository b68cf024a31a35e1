// Quasi-global momentum: D-PSGD with a momentum that follows the change of the averaged model, so
// that different data do not drive the momenta apart.
// Paper: Lin, Karimireddy, Stich, Jaggi. ICML 2021. arXiv:2102.04761 (QG-DSGDm-N).
//
//   h_i = x_i - lr ((1 + mu) g_i + mu^2 m_i)         Nesterov; else x_i - lr (g_i + mu m_i)
//   x_i' = h_i + gamma sum_j W_ij (h_j - h_i)        (gossip.hpp)
//   m_i' = mu m_i + (1 - mu) (x_i - x_i') / lr       m = 0 at first; lr = 0 keeps it
//
// g includes the weight decay. The local step is always SGD, and mu is its momentum. Requires
// symmetric weights whose rows sum to 1.
// Invariant: gossip keeps the mean of x while no message is lost.
// Cost per rank and round: one message of the model to each neighbour. Memory: x before and after
// the step, m.
#pragma once
#include "actors/algorithms/gossip.hpp"

namespace grapevine {

class QuasiGlobal final : public GossipRule {
 public:
  explicit QuasiGlobal(const RuleContext&);

  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  double mu_;
  bool nesterov_;
  Buffer m_, before_;
  double lr_ = 0;  // of the present round
};

}  // namespace grapevine
