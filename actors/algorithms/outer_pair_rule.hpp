// OuterPairRule: the common base of NoLoCo and GASLoC. The pairs of a random matching send each
// other y, the end of their inner steps, and each takes a share of the other's.
//
//   u_i = the optimizer's step from theta_i      without momentum, which the method applies itself
//   y_i = theta_i + u_i                          the message
//
// Memory: theta and u.
#pragma once
#include "actors/algorithms/rule.hpp"

namespace grapevine {

class OuterPairRule : public RoundRule {
 public:
  explicit OuterPairRule(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  /// The jump of an exchange enters the momentum.
  bool conserves() const override { return false; }
  size_t message_bytes() const override { return layout_.bytes(); }
  void write(int phase, size_t edge, Payload& out) override;
  double distance(size_t edge, const Payload&) override;  // of y_j from theta
  ConstVec step() override { return u_; }

 protected:
  /// u = the optimizer's step at `rate`; eta is the learning rate of the round.
  void set_step(double eta, double rate, ConstVec g);

  double momentum_, eta_ = 0;
  Buffer u_;
};

}  // namespace grapevine
