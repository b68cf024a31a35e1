#include "actors/algorithms/gasloc.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace grapevine {

namespace {

// The optimizer without its momentum, which is ours.
RuleContext without_momentum(RuleContext context) {
  context.settings.optimizer.momentum = 0;
  return context;
}

}  // namespace

Gasloc::Gasloc(const RuleContext& c)
    : RoundRule(without_momentum(c)),
      gamma_(c.settings.optimizer.momentum),
      u_(execution_, size(), dtype()),
      before_(execution_, size(), dtype()) {
  scale(execution_, 1, x_, before_);
}

void Gasloc::on_gradient(double, double lr, ConstVec g, Vec) {
  eta_ = lr;
  scale(execution_, 1, x_, u_);
  optimizer_.step(execution_, 0, lr, g, u_, {}, {});
  axpy(execution_, -1, x_, u_);
}

void Gasloc::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, u_, u_);
  scale(execution_, 1, x, before_);
}

RuleState Gasloc::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("u", u_, Follows::rank);
  state.add("y of the round before", before_, Follows::rank);
  state.add("learning rate of the round", eta_, Follows::rank);
  return state;
}

void Gasloc::write(int, size_t, Payload& out) {
  grapevine::combine(execution_, {{{1, x_}, {1, u_}}}, out.writable(dtype(), size()));
}

double Gasloc::distance(size_t, const Payload& payload) {
  if (payload.dtype != dtype() || payload.count != size())
    return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(square_distance(execution_, payload.vec(), x_));
}

void Gasloc::combine(double, int, std::span<const Received> in) {
  const double gamma = eta_ == 0 ? 0 : gamma_;
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
