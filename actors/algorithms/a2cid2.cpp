#include "actors/algorithms/a2cid2.hpp"

#include <cmath>

#include "kernels/base/check.hpp"

namespace grapevine {

static double mixing_over(double phase) { return -0.5 * std::expm1(-2 * phase); }

A2cid2::A2cid2(const RuleContext& context)
    : PairRule(context), x_tilde_(execution_, x_.size(), x_.dtype()) {
  scale(execution_, 1, x_, x_tilde_);
}

double A2cid2::mixing_until(double now) {
  GV_CHECK(now >= now_);
  phase_ += eta_ * (now - now_);
  now_ = now;
  return mixing_over(phase_ - written_);
}

void A2cid2::read(double now, Vec out) {
  extrapolate(execution_, mixing_until(now), x_, x_tilde_, out);
}

double A2cid2::measured_step(double now, double lr, ConstVec g, Vec copy) {
  const double length =
      optimizer_.measured_step(execution_, mixing_until(now), lr, g, x_, x_tilde_, copy);
  written_ = phase_;
  return length;
}

double A2cid2::measured_take(double now, Vec front, Vec base, Vec finite) {
  const double length = take_by(mixing_until(now), front, base, x_tilde_, finite);
  written_ = phase_;
  return length;
}

void A2cid2::snapshot(double now, const ExchangeKey& key, ConstVec front, Payload& out) {
  write(key, mixing_until(now), x_tilde_, front, out);
  out.lease.set_phase(phase_);
}

void A2cid2::jump(double now, const ExchangeKey& key, const Payload& sent, const Payload& received,
                  double alpha_tilde, double share) {
  const double c = mixing_until(now);
  const double z = mixing_over(phase_ - sent.lease.phase()) * (alpha_tilde - kAlpha);
  const double alpha = share * (kAlpha + z);
  if (apply(key, sent, received, c, alpha, share * (alpha_tilde - z), x_tilde_)) written_ = phase_;
}

void A2cid2::reset(double now, ConstVec x) {
  mixing_until(now);
  PairRule::reset(now, x);
  scale(execution_, 1, x, x_tilde_);
  written_ = phase_;
}

RuleState A2cid2::state(double now) {
  const Buffer zero(execution_, x_.size(), x_.dtype());
  mix_and_jump(execution_, mixing_until(now), 0, 0, zero, zero, x_, x_tilde_);
  written_ = phase_;
  RuleState state = PairRule::state(now);
  state.vectors.insert(state.vectors.begin() + 1, {"x~", x_tilde_, Follows::model});
  return state;
}

void A2cid2::add_conserved(double now, Vec sum) {  // mixing does not change x + x~
  PairRule::add_conserved(now, sum);
  accumulate(execution_, x_tilde_, sum);
}

}  // namespace grapevine
