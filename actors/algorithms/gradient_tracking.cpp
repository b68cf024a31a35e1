#include "actors/algorithms/gradient_tracking.hpp"

namespace grapevine {

GradientTracking::GradientTracking(const RuleContext& context)
    : GossipRule(context), c_(execution_, size(), dtype()), u_(execution_, size(), dtype()) {}

void GradientTracking::on_gradient(double, double lr, ConstVec g, Vec) {
  scale(execution_, 0, u_, u_);
  optimizer_.step(execution_, 0, lr, g, x_, u_, {});  // x is x + u from here to combine()
}

void GradientTracking::reset(double now, ConstVec x) {
  GossipRule::reset(now, x);
  scale(execution_, 0, c_, c_);
}

RuleState GradientTracking::state(double now) {
  RuleState state = GossipRule::state(now);
  state.add("c", c_, Follows::graph);
  state.add("u", u_, Follows::rank);
  return state;
}

void GradientTracking::enter(const Neighbourhood& near) {
  GossipRule::enter(near);
  scale(execution_, 0, c_, c_);
}

void GradientTracking::write(int, size_t, Payload& out) {
  const Vec both = out.writable(dtype(), 2 * size());
  grapevine::combine(execution_, {{{1, x_}, {1, c_}}}, both.part(0, size()));
  grapevine::combine(execution_, {{{1, c_}, {1, u_}}}, both.part(size(), size()));
  sent_ = out;
}

void GradientTracking::combine(double, int, std::span<const Received> in) {
  axpy(execution_, 1, c_, x_);  // y
  axpy(execution_, 1, u_, c_);  // z
  gossip_.average(execution_, in, 0, x_);
  gossip_.average(execution_, in, size(), c_);
  axpy(execution_, -1, u_, c_);
}

}  // namespace grapevine
