#include "actors/algorithms/a2cid2.hpp"

#include <cmath>

#include "kernels/check.hpp"

namespace grapevine {

A2cid2Constants a2cid2_constants(const Spectrum& graph) {
  return {1 / (2 * std::sqrt(graph.chi1 * graph.chi2)), 0.5 * std::sqrt(graph.chi1 / graph.chi2)};
}

A2cid2Constants without_repeats(A2cid2Constants constants, const Topology& graph) {
  double sum = 0;
  int inner = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    if (graph.degree(rank) < 2) continue;
    sum += graph.degree(rank);
    ++inner;
  }
  if (inner == 0) return constants;
  const double d = sum / inner;
  const double s = std::sqrt(d / (d - 1));
  return {constants.eta * s, constants.alpha_tilde / s};
}

namespace {

double attraction_over(double phase) { return -0.5 * std::expm1(-2 * phase); }

}  // namespace

A2cid2::A2cid2(const RuleContext& context)
    : execution_(context.execution),
      optimizer_(context.layout, context.settings.optimizer),
      x_(context.layout.size(), context.layout.dtype()),
      x_tilde_(context.layout.size(), context.layout.dtype()),
      reference_order_(context.settings.reference_order) {
  reset(0, context.x);
  if (!context.settings.compress.empty()) compressed_ = std::make_unique<PairFactors>(context);
  if (compressed_ || reference_order_) shown_ = Buffer(x_.size(), x_.dtype());
}

void A2cid2::advance(double now) {
  GV_CHECK(now >= now_);
  phase_ += eta_ * (now - now_);
  now_ = now;
}

double A2cid2::attraction() const { return attraction_over(phase_ - written_); }

void A2cid2::set_eta(double now, double eta) {
  advance(now);
  eta_ = eta;
}

void A2cid2::reset(double now, ConstVec x) {
  advance(now);
  written_ = phase_;
  scale(execution_, 1, x, x_);
  scale(execution_, 1, x, x_tilde_);
  optimizer_.reset(execution_);
}

void A2cid2::read(double now, Vec out) {
  advance(now);
  grapevine::extrapolate(execution_, attraction(), x_, x_tilde_, out);
}

void A2cid2::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  advance(now);
  optimizer_.step(execution_, attraction(), lr, g, x_, x_tilde_, copy);
  written_ = phase_;
}

void A2cid2::add_conserved(double, Vec sum) {  // mixing does not change x + x~
  add_to(execution_, x_, sum);
  add_to(execution_, x_tilde_, sum);
}

std::vector<Vec> A2cid2::vectors(double now) {
  advance(now);
  const Buffer zero(x_.size(), x_.dtype());
  mix_and_jump(execution_, attraction(), 0, 0, zero, zero, x_, x_tilde_);
  written_ = phase_;
  return optimizer_.vectors({x_, x_tilde_});
}

size_t A2cid2::snapshot_bytes() const {
  return compressed_ ? compressed_->message_bytes() : x_.size() * size_of(x_.dtype());
}

void A2cid2::snapshot(double now, const ExchangeKey& key, Payload& out) {
  if (compressed_) {
    read(now, shown_);
    compressed_->at(key).encode(shown_, out);
  } else if (reference_order_) {
    scale(execution_, 1, x_, out.writable(x_.dtype(), x_.size()));
  } else {
    read(now, out.writable(x_.dtype(), x_.size()));
  }
  out.lease.set_phase(phase_);
}

void A2cid2::jump(double now, const ExchangeKey& key, const Payload& sent, const Payload& received,
                  double alpha_tilde) {
  advance(now);
  const double z = attraction_over(phase_ - sent.lease.phase()) * (alpha_tilde - kAlpha);
  if (reference_order_) {
    read(now, shown_);
    mix_and_jump(execution_, attraction(), kAlpha, alpha_tilde, shown_, received.vec(), x_,
                 x_tilde_);
  } else if (!compressed_) {
    mix_and_jump(execution_, attraction(), kAlpha + z, alpha_tilde - z, sent.vec(), received.vec(),
                 x_, x_tilde_);
  } else if (!compressed_->jump(key, sent, received, attraction(), kAlpha + z, alpha_tilde - z, x_,
                                x_tilde_)) {
    return;
  }
  written_ = phase_;
}

}  // namespace grapevine
