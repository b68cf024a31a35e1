#include "actors/algorithms/relaysgd_async.hpp"

namespace grapevine {

RelaySgdAsync::RelaySgdAsync(const RuleContext& context)
    : RelaySgd(context, true), y_(execution_, size(), dtype()) {
  scale(execution_, 1, context.x, y_);
  say();
}

void RelaySgdAsync::reset(double now, ConstVec x) {
  scale(execution_, 1, x, y_);
  RelaySgd::reset(now, x);
}

RuleState RelaySgdAsync::state(double now) {
  RuleState state = RelaySgd::state(now);
  state.add("y", y_, Follows::rank);
  return state;
}

void RelaySgdAsync::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  RelaySgd::on_gradient(now, lr, g, copy);
  scale(execution_, 1, x_, y_);
  say();
}

void RelaySgdAsync::combine(double now, int phase, std::span<const Received> in) {
  RelaySgd::combine(now, phase, in);
  say();  // before the next write()
}

}  // namespace grapevine
