#include "actors/algorithms/gasloc.hpp"

#include <utility>

namespace grapevine {

Gasloc::Gasloc(const RuleContext& c) : OuterPairRule(c), before_(execution_, size(), dtype()) {
  scale(execution_, 1, x_, before_);
}

void Gasloc::on_gradient(double, double lr, ConstVec g, Vec) { set_step(lr, lr, g); }

void Gasloc::reset(double now, ConstVec x) {
  OuterPairRule::reset(now, x);
  scale(execution_, 1, x, before_);
}

RuleState Gasloc::state(double now) {
  RuleState state = OuterPairRule::state(now);
  state.add("y of the round before", before_, Follows::rank);
  return state;
}

void Gasloc::combine(double, int, std::span<const Received> in) {
  const double gamma = eta_ == 0 ? 0 : momentum_;
  grapevine::combine(execution_, {{{1, x_}, {1, u_}}}, u_);  // y
  if (in.size() == 1 && in[0]) {
    const double share = in[0].share / 2;
    grapevine::combine(execution_,
                       {{{1 - share + gamma, u_}, {share, in[0].payload.vec()}, {-gamma, before_}}},
                       x_);
  } else {
    grapevine::combine(execution_, {{{1 + gamma, u_}, {-gamma, before_}}}, x_);
  }
  std::swap(u_, before_);
}

}  // namespace grapevine
