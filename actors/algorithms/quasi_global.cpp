#include "actors/algorithms/quasi_global.hpp"

namespace grapevine {

QuasiGlobal::QuasiGlobal(const RuleContext& c)
    : GossipRule(c.without_momentum()),
      mu_(c.settings.optimizer.momentum),
      nesterov_(c.settings.optimizer.nesterov),
      m_(execution_, size(), dtype()),
      before_(execution_, size(), dtype()) {}

void QuasiGlobal::on_gradient(double, double lr, ConstVec g, Vec) {
  lr_ = lr;
  scale(execution_, 1, x_, before_);
  optimizer_.step(execution_, 0, lr * (nesterov_ ? 1 + mu_ : 1), g, x_, {}, {});
  axpy(execution_, -lr * (nesterov_ ? mu_ * mu_ : mu_), m_,
       x_);  // x is h until combine()
}

void QuasiGlobal::reset(double now, ConstVec x) {
  GossipRule::reset(now, x);
  scale(execution_, 0, m_, m_);
}

RuleState QuasiGlobal::state(double now) {
  RuleState state = GossipRule::state(now);
  state.add("m", m_, Follows::rank);
  state.add("x before the step", before_, Follows::rank);
  state.add("learning rate of the round", lr_, Follows::rank);
  return state;
}

void QuasiGlobal::combine(double, int, std::span<const Received> in) {
  gossip_.average(execution_, in, 0, x_);
  if (lr_ == 0) return;
  const double a = (1 - mu_) / lr_;
  grapevine::combine(execution_, {{{mu_, m_}, {a, before_}, {-a, x_}}}, m_);
}

}  // namespace grapevine
