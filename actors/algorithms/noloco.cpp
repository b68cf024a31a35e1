#include "actors/algorithms/noloco.hpp"

namespace grapevine {

NoLoCo::NoLoCo(const RuleContext& c) : OuterPairRule(c), d_(execution_, size(), dtype()) {}

void NoLoCo::on_gradient(double, double lr, ConstVec g, Vec) { set_step(lr, 1, g); }

void NoLoCo::reset(double now, ConstVec x) {
  OuterPairRule::reset(now, x);
  scale(execution_, 0, d_, d_);
}

RuleState NoLoCo::state(double now) {
  RuleState state = OuterPairRule::state(now);
  state.add("d", d_, Follows::rank);
  return state;
}

void NoLoCo::combine(double, int, std::span<const Received> in) {
  if (eta_ == 0) return;
  if (in.size() == 1 && in[0]) {
    const double share = in[0].share / 2;
    grapevine::combine(execution_,
                       {{{momentum_, d_},
                         {eta_ * (1 - share), u_},
                         {eta_ * share, in[0].payload.vec()},
                         {-eta_ * share, x_}}},
                       d_);
  } else {
    grapevine::combine(execution_, {{{momentum_, d_}, {eta_, u_}}}, d_);
  }
  axpy(execution_, 1, d_, x_);
}

}  // namespace grapevine
