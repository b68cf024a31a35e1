// A2CiD2 in the order of the published code (AdelNabli/ACiD), a control for the rule of the paper.
//
//   to peer j        sends x as it lies in memory, mixes then
//   from peer j      x -= alpha (x - x_j)      x~ -= alpha~ (x - x_j)      x: its own, mixed now
//
// The two ends subtract different differences, so the sum of x + x~ is not kept, and on sparse
// graphs it needs some twice the exchanges of a2cid2.hpp. All else is as there. Memory: one more x.
#pragma once
#include "actors/algorithms/a2cid2.hpp"

namespace grapevine {

class A2cid2Reference final : public A2cid2 {
 public:
  explicit A2cid2Reference(const RuleContext&);  // settings.compress is empty

  void snapshot(double now, const ExchangeKey&, Payload& out) override;
  void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
            double alpha_tilde, double share) override;
  bool conserves() const override { return false; }

 private:
  Buffer mixed_;
};

}  // namespace grapevine
