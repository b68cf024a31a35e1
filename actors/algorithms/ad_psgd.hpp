// AD-PSGD: asynchronous gossip SGD with plain pairwise averaging, the baseline of A2CiD2.
// Paper: Lian, Zhang, Zhang, Liu. ICML 2018. arXiv:1710.06952; here with an additive jump, as in
// a2cid2.hpp.
//
//   at a gradient    x -= gamma u                  u the momentum step of the local gradient
//   at peer j        x -= 1/2 (x - x_j)            x, x_j: the two snapshots that crossed
//
// It is A2CiD2 with eta = 0 and alpha~ = 1/2: x~ equals x and is not kept.
// Invariant: only gradients change the sum of x over all ranks.
// Cost: snapshot 2 words per parameter, jump 4, gradient 6 with momentum and the next copy. Memory:
// x, momentum.
//
// A message may have less than x (pair_rule.hpp).
#pragma once
#include "actors/algorithms/pair_rule.hpp"

namespace grapevine {

class AdPsgd final : public PairRule {
 public:
  using PairRule::PairRule;

  void set_eta(double, double) override {}
  void read(double now, Vec out) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override {
    measured_step(now, lr, g, copy);
  }
  bool measures_steps() const override { return execution_.device == nullptr; }
  double measured_step(double now, double lr, ConstVec g, Vec copy) override;
  void take(double now, Vec front, Vec base, Vec finite) override {
    measured_take(now, front, base, finite);
  }
  double measured_take(double now, Vec front, Vec base, Vec finite) override;
  void snapshot(double now, const ExchangeKey&, ConstVec front, Payload& out) override;
  void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
            double alpha_tilde, double share) override;
};

}  // namespace grapevine
