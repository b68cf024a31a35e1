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

A2cid2::A2cid2(const ParameterLayout& layout, const OptimizerSettings& optimizer,
               Execution execution, ConstVec x)
    : runs_(decay_runs(layout)),
      optimizer_(optimizer),
      execution_(execution),
      x_(layout.size(), layout.dtype()),
      x_tilde_(layout.size(), layout.dtype()) {
  if (optimizer.momentum != 0) v_ = Buffer(layout.size(), layout.dtype());
  reset(0, x);
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
  if (v_) scale(execution_, 0, v_, v_);
}

void A2cid2::look(double now, Vec out) {
  advance(now);
  grapevine::look(execution_, attraction(), x_, x_tilde_, out);
}

void A2cid2::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  advance(now);
  step_by_runs(execution_, runs_, attraction(), optimizer_, lr, g, v_, x_, x_tilde_, copy);
  written_ = phase_;
}

void A2cid2::add_conserved(double, Vec sum) {  // mixing does not change x + x~
  const Buffer zero(x_.size(), DType::f64);
  add_deviation(execution_, x_, zero, sum);
  add_deviation(execution_, x_tilde_, zero, sum);
}

void A2cid2::snapshot(double now, Lease& out) {
  look(now, out.writable());
  out.set_phase(phase_);
}

void A2cid2::jump(double now, const Lease& sent, const Lease& received, double alpha_tilde) {
  advance(now);
  const double z = attraction_over(phase_ - sent.phase()) * (alpha_tilde - kAlpha);
  mix_and_jump(execution_, attraction(), kAlpha + z, alpha_tilde - z, sent.vec(), received.vec(),
               x_, x_tilde_);
  written_ = phase_;
}

}  // namespace grapevine
