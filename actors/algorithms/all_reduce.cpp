#include "actors/algorithms/all_reduce.hpp"

namespace grapevine {

AllReduce::AllReduce(const ParameterLayout& layout, const OptimizerSettings& optimizer,
                     Execution execution, ConstVec x)
    : runs_(decay_runs(layout)),
      optimizer_(optimizer),
      execution_(execution),
      x_(layout.size(), layout.dtype()),
      g_(layout.size(), layout.dtype()) {
  if (optimizer.momentum != 0) v_ = Buffer(layout.size(), layout.dtype());
  reset(0, x);
}

void AllReduce::look(double, Vec out) { scale(execution_, 1, x_, out); }

void AllReduce::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  if (v_) scale(execution_, 0, v_, v_);
}

void AllReduce::on_gradient(double, double lr, ConstVec g, Vec) {
  scale(execution_, 1, g, g_);
  lr_ = lr;
}

void AllReduce::finish(double, int contributions, Vec copy) {
  scale(execution_, 1.0 / contributions, g_, g_);
  step_by_runs(execution_, runs_, 0, optimizer_, lr_, g_, v_, x_, {}, copy);
}

void AllReduce::add_conserved(double, Vec sum) {
  const Buffer zero(x_.size(), DType::f64);
  add_deviation(execution_, x_, zero, sum);
}

}  // namespace grapevine
