#include "actors/algorithms/all_reduce.hpp"

namespace grapevine {

AllReduce::AllReduce(const RuleContext& context)
    : execution_(context.execution),
      optimizer_(context.layout, context.settings.optimizer, execution_),
      x_(context.layout.size(), context.layout.dtype()),
      g_(context.layout.size(), context.layout.dtype()) {
  reset(0, context.x);
}

void AllReduce::look(double, Vec out) { scale(execution_, 1, x_, out); }

void AllReduce::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset();
}

std::vector<Vec> AllReduce::vectors(double) {
  std::vector<Vec> all{x_};
  for (const Vec v : optimizer_.vectors())
    all.push_back(v);
  return all;
}

void AllReduce::on_gradient(double, double lr, ConstVec g, Vec) {
  scale(execution_, 1, g, g_);
  lr_ = lr;
}

void AllReduce::finish(double, int contributions, Vec copy) {
  scale(execution_, 1.0 / contributions, g_, g_);
  optimizer_.step(0, lr_, g_, x_, {}, copy);
}

void AllReduce::add_conserved(double, Vec sum) { add_to(execution_, x_, sum); }

}  // namespace grapevine
