#include "actors/algorithms/ad_psgd.hpp"

namespace grapevine {

AdPsgd::AdPsgd(const ParameterLayout& layout, const OptimizerSettings& optimizer,
               Execution execution, ConstVec x)
    : runs_(decay_runs(layout)),
      optimizer_(optimizer),
      execution_(execution),
      x_(layout.size(), layout.dtype()) {
  if (optimizer.momentum != 0) v_ = Buffer(layout.size(), layout.dtype());
  reset(0, x);
}

void AdPsgd::look(double, Vec out) { scale(execution_, 1, x_, out); }

void AdPsgd::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  if (v_) scale(execution_, 0, v_, v_);
}

void AdPsgd::on_gradient(double, double lr, ConstVec g, Vec copy) {
  step_by_runs(execution_, runs_, 0, optimizer_, lr, g, v_, x_, {}, copy);
}

void AdPsgd::add_conserved(double, Vec sum) {
  const Buffer zero(x_.size(), DType::f64);
  add_deviation(execution_, x_, zero, sum);
}

void AdPsgd::snapshot(double now, Lease& out) {
  look(now, out.writable());
  out.set_phase(0);
}

void AdPsgd::jump(double, const Lease& sent, const Lease& received, double) {
  mix_and_jump(execution_, 0, 0.5, 0.5, sent.vec(), received.vec(), x_, {});
}

}  // namespace grapevine
