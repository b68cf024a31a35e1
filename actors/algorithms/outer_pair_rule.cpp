#include "actors/algorithms/outer_pair_rule.hpp"

#include <cmath>
#include <limits>

namespace grapevine {

OuterPairRule::OuterPairRule(const RuleContext& c)
    : RoundRule(c.without_momentum()),
      momentum_(c.settings.optimizer.momentum),
      u_(execution_, size(), dtype()) {}

void OuterPairRule::set_step(double eta, double rate, ConstVec g) {
  eta_ = eta;
  scale(execution_, 1, x_, u_);
  optimizer_.step(execution_, 0, rate, g, u_, {}, {});
  axpy(execution_, -1, x_, u_);
}

void OuterPairRule::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, u_, u_);
}

RuleState OuterPairRule::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("u", u_, Follows::rank);
  state.add("learning rate of the round", eta_, Follows::rank);
  return state;
}

void OuterPairRule::write(int, size_t, Payload& out) {
  grapevine::combine(execution_, {{{1, x_}, {1, u_}}}, out.writable(dtype(), size()));
}

double OuterPairRule::distance(size_t, const Payload& payload) {
  if (payload.dtype != dtype() || payload.count != size())
    return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(square_distance(execution_, payload.vec(), x_));
}

}  // namespace grapevine
