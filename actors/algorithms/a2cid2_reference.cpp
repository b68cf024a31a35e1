#include "actors/algorithms/a2cid2_reference.hpp"

namespace grapevine {

A2cid2Reference::A2cid2Reference(const RuleContext& context)
    : A2cid2(context), mixed_(x_.size(), x_.dtype()) {}

void A2cid2Reference::snapshot(double, const ExchangeKey&, Payload& out) {
  scale(execution_, 1, x_, out.writable(x_.dtype(), x_.size()));
  out.lease.set_phase(phase_);
}

void A2cid2Reference::jump(double now, const ExchangeKey&, const Payload&, const Payload& received,
                           double alpha_tilde, double share) {
  read(now, mixed_);
  mix_and_jump(execution_, mixing_until(now), share * kAlpha, share * alpha_tilde, mixed_,
               received.vec(), x_, x_tilde_);
  written_ = phase_;
}

}  // namespace grapevine
