#include "actors/algorithms/all_reduce.hpp"

namespace grapevine {

AllReduce::AllReduce(const RuleContext& context)
    : CollectiveRule(context.execution),
      optimizer_(execution_, context.layout, context.settings.optimizer),
      x_(execution_, context.layout.size(), context.layout.dtype()),
      g_(execution_, context.layout.size(), context.layout.dtype()),
      sum_(execution_, context.layout.size(), context.layout.dtype()) {
  reset(0, context.x);
}

void AllReduce::read(double, Vec out) { scale(execution_, 1, x_, out); }

void AllReduce::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset(execution_);
}

RuleState AllReduce::state(double) {
  RuleState state;
  state.add("x", x_, Follows::model);
  optimizer_.name(state, Follows::model);
  return state;
}

void AllReduce::on_gradient(double, double lr, ConstVec g, Vec) {
  scale(execution_, 1, g, g_);
  lr_ = lr;
}

void AllReduce::begin(double now, int vector) {
  const Vec own =
      vector == 0 ? g_.vec() : state(now).vectors[static_cast<size_t>(vector - 1)].values;
  scale(execution_, 1, own, sum_);
}

void AllReduce::finish(double now, int vector, int contributions, Vec copy) {
  if (vector > 0) {
    if (contributions == 0) return;
    const Vec own = state(now).vectors[static_cast<size_t>(vector - 1)].values;
    return scale(execution_, 1.0 / contributions, sum_, own);
  }
  if (contributions == 0) {
    if (copy) read(now, copy);
    return;
  }
  scale(execution_, 1.0 / contributions, sum_, sum_);
  optimizer_.step(execution_, 0, lr_, sum_, x_, {}, copy);
}

void AllReduce::add_conserved(double, Vec sum) { accumulate(execution_, x_, sum); }

}  // namespace grapevine
