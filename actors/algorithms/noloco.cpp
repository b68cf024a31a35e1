#include "actors/algorithms/noloco.hpp"

#include <cmath>
#include <limits>

namespace grapevine {

namespace {

// The optimizer without its momentum, which is ours.
RuleContext without_momentum(RuleContext context) {
  context.settings.optimizer.momentum = 0;
  return context;
}

}  // namespace

NoLoCo::NoLoCo(const RuleContext& c)
    : RoundRule(without_momentum(c)),
      mu_(c.settings.optimizer.momentum),
      u_(execution_, size(), dtype()),
      d_(execution_, size(), dtype()) {}

void NoLoCo::on_gradient(double, double lr, ConstVec g, Vec) {
  eta_ = lr;
  scale(execution_, 1, x_, u_);
  optimizer_.step(execution_, 0, 1, g, u_, {}, {});
  axpy(execution_, -1, x_, u_);
}

void NoLoCo::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, u_, u_);
  scale(execution_, 0, d_, d_);
}

RuleState NoLoCo::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("u", u_, Follows::rank);
  state.add("d", d_, Follows::rank);
  state.add("learning rate of the round", eta_, Follows::rank);
  return state;
}

void NoLoCo::write(int, size_t, Payload& out) {
  grapevine::combine(execution_, {{{1, x_}, {1, u_}}}, out.writable(dtype(), size()));
}

double NoLoCo::distance(size_t, const Payload& payload) {
  if (payload.dtype != dtype() || payload.count != size())
    return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(square_distance(execution_, payload.vec(), x_));
}

void NoLoCo::combine(double, int, std::span<const Received> in) {
  if (eta_ == 0) return;
  if (in.size() == 1 && in[0]) {
    const double share = in[0].share / 2;
    grapevine::combine(execution_,
                       {{{mu_, d_},
                         {eta_ * (1 - share), u_},
                         {eta_ * share, in[0].payload.vec()},
                         {-eta_ * share, x_}}},
                       d_);
  } else {
    grapevine::combine(execution_, {{{mu_, d_}, {eta_, u_}}}, d_);
  }
  axpy(execution_, 1, d_, x_);
}

}  // namespace grapevine
