#include "actors/algorithms/relaysum_grad.hpp"

namespace grapevine {

RelaySumGrad::RelaySumGrad(const RuleContext& context)
    : RelayRule(context, false), u_(execution_, size(), dtype()) {
  say();
}

void RelaySumGrad::reset(double now, ConstVec x) {
  scale(execution_, 0, u_, u_);
  RelayRule::reset(now, x);
}

RuleState RelaySumGrad::state(double now) {
  RuleState state = RelayRule::state(now);
  state.add("u", u_, Follows::rank);
  return state;
}

void RelaySumGrad::on_gradient(double, double lr, ConstVec g, Vec) {
  scale(execution_, 1, x_, u_);
  optimizer_.step(execution_, 0, lr, g, u_, {}, {});
  axpy(execution_, -1, x_, u_);
  say();
}

double RelaySumGrad::distance(size_t edge, const Payload& message) {
  return relay_.distance(execution_, edge, message, 0);
}

void RelaySumGrad::take_in(size_t tree) {
  const double n = near_.ranks;
  relay_.sum(execution_, tree, 1 / n, 1 / n, 1, x_, x_);
}

}  // namespace grapevine
