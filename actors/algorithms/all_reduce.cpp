#include "actors/algorithms/all_reduce.hpp"

#include <cmath>

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

int AllReduce::vectors(double now) {
  const auto vectors = static_cast<int>(state(now).vectors.size());
  return optimizer_.uses_count() ? vectors + 1 : vectors;
}

// The vector after those of the state is Adam's count of steps. Each element of it is the count.
bool AllReduce::is_count(double now, int vector) {
  return vector > 0 && vector > static_cast<int>(state(now).vectors.size());
}

void AllReduce::begin(double now, int vector) {
  if (is_count(now, vector)) return fill(execution_, static_cast<double>(optimizer_.steps()), sum_);
  const Vec own =
      vector == 0 ? g_.vec() : state(now).vectors[static_cast<size_t>(vector - 1)].values;
  scale(execution_, 1, own, sum_);
}

void AllReduce::ask_sums(double now, int vector) {
  if (is_count(now, vector)) number_at(execution_, sum_, 0);
}

void AllReduce::finish(double now, int vector, int contributions, Vec copy) {
  if (vector > 0) {
    if (contributions == 0) return;
    if (is_count(now, vector)) {
      const double sum = number_at(execution_, sum_, 0);
      if (contributions > 1) optimizer_.set_steps(std::llround(sum / contributions));
      return;
    }
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
