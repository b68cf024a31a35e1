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
// The attraction is solved exactly: x + x~ stays, x~ - x decays as exp(-2 (theta - theta')), theta
// = integral of eta dt the *phase*. So x and x~ are kept as of the phase of their last rewriting,
// and a snapshot reads them without writing.
//
// Departure from the paper: x - x_j is taken between the two snapshots that crossed the wire, and
// the jump is dated back to its snapshot: the part of it that lies in x~ - x decays as the state
// has since. With m = x_i - x_j as sent, d(phase) since the snapshot, q = (1 - exp(-2 d(phase))) /
// 2 and z = q (alpha~ - alpha):
//
//   x -= (alpha + z) m          x~ -= (alpha~ - z) m
//
// So what i gains j loses however late the answer is, and nobody is ever locked.
// Invariant: only gradients change the sum of x + x~ over all ranks.
//
// Cost: snapshot 3 words per parameter, jump 6, gradient 8 with momentum and the next copy, or a
// step that was made outside 8. Memory: x, x~, momentum. What is sent may be less than x
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
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void take(double now, Vec front, Vec base, Vec finite) override;
  void snapshot(double now, const ExchangeKey&, ConstVec front, Payload& out) override;
  void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
            double alpha_tilde, double share) override;
  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void add_conserved(double now, Vec sum) override;

 protected:
  double mixing_until(double now);  // its coefficient, for x and x~ as they are in memory

  Buffer x_tilde_;
  double eta_ = 0;
  double now_ = 0, phase_ = 0;  // the phase at now_, which never decreases
  double written_ = 0;          // the phase at which x_ and x_tilde_ are in memory
};

}  // namespace grapevine
