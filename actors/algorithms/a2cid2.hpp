// A2CiD2: asynchronous gossip SGD, accelerated by a continuous local momentum.
// Paper: Nabli, Belilovsky, Oyallon. NeurIPS 2023. arXiv:2306.08289.
//
// A rank keeps two copies of the model, x and x~. Between events they attract each other; at an
// event both jump. With u the momentum step of the local gradient and x_j the parameters of peer j:
//
//   between events   dx = eta (x~ - x) dt          dx~ = eta (x - x~) dt
//   at a gradient    x -= gamma u                  x~ -= gamma u
//   at peer j        x -= alpha (x - x_j)          x~ -= alpha~ (x - x_j)
//
// The attraction is solved exactly: x + x~ stays, and x~ - x decays as exp(-2 (theta - theta')).
// The *phase* theta is the integral of eta dt. Memory has x and x~ at the phase of their last
// change, so a snapshot reads them without a write.
//
// Departure from the paper: x - x_j is the difference of the two snapshots that crossed the wire,
// and the jump acts as if it had been applied at its snapshot: its part in x~ - x decays as the
// state has since then. With m = x_i - x_j as sent, d(phase) since the snapshot, q = (1 - exp(-2
// d(phase))) / 2 and z = q (alpha~ - alpha):
//
//   x -= (alpha + z) m          x~ -= (alpha~ - z) m
//
// So rank i gains what rank j loses, however late the answer is, and no rank is ever locked.
// Invariant: only gradients change the sum of x + x~ over all ranks.
//
// Cost: snapshot 3 words per parameter, jump 6, gradient 8 with momentum and the next copy, or 8
// for a step that was made outside. Memory: x, x~, momentum. A message may have less than x
// (pair_rule.hpp).
#pragma once
#include "actors/algorithms/pair_rule.hpp"

namespace grapevine {

constexpr double kAlpha = 0.5;

class A2cid2 : public PairRule {
 public:
  explicit A2cid2(const RuleContext&);

  void set_eta(double now, double eta) override { mixing_until(now), eta_ = eta; }
  void read(double now, Vec out) override;
  /// Final, as take() is, so that a derived rule with its own step overrides measured_step() and
  /// measured_take(), the ones that run.
  void on_gradient(double now, double lr, ConstVec g, Vec copy) final {
    measured_step(now, lr, g, copy);
  }
  bool measures_steps() const override { return execution_.device == nullptr; }
  double measured_step(double now, double lr, ConstVec g, Vec copy) override;
  void take(double now, Vec front, Vec base, Vec finite) final {
    measured_take(now, front, base, finite);
  }
  double measured_take(double now, Vec front, Vec base, Vec finite) override;
  void snapshot(double now, const ExchangeKey&, ConstVec front, Payload& out) override;
  void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
            double alpha_tilde, double share) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void add_conserved(double now, Vec sum) override;

 protected:
  double mixing_until(double now);  // the mixing coefficient, for x and x~ as they are in memory

  Buffer x_tilde_;
  double eta_ = 0;
  double now_ = 0, phase_ = 0;  // phase_ is the phase at now_, which never falls
  double written_ = 0;          // the phase of x_ and x_tilde_ in memory
};

}  // namespace grapevine
