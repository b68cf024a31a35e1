#include "actors/state/local_steps.hpp"

#include <algorithm>

namespace grapevine {

LocalSteps::LocalSteps(const Execution& execution, const ParameterLayout& layout,
                       const InnerSteps& inner)
    : execution_(execution),
      count_(inner.count),
      front_(execution, layout.size(), layout.dtype()),
      base_(execution, layout.size(), layout.dtype()),
      finite_(execution, 1, DType::f64),
      optimizer_(execution, layout, inner.optimizer) {}

void LocalSteps::begin(double now, Rule& rule) {
  rule.read(now, front_);
  scale(execution_, 1, front_, base_);
  taken_ = 0;
  has_begun_ = true;
}

void LocalSteps::step(double lr, ConstVec g, Vec copy) {
  warm_up_ = std::min(warm_up_, count_);  // the value may come from a file
  if (warm_up_ > 0)
    lr *= static_cast<double>(count_ + 1 - warm_up_--) / static_cast<double>(count_);
  optimizer_.step(execution_, 0, lr, g, front_, {}, copy);
  ++taken_;
}

void LocalSteps::follow(double now, Rule& rule) {
  if (taken_ == 0) return;  // begin() will start the round at x
  axpy(execution_, -1, base_, front_);
  rule.read(now, base_);
  axpy(execution_, 1, base_, front_);
}

void LocalSteps::end_round() {
  taken_ = 0;
  has_begun_ = false;
}

void LocalSteps::name(RuleState& state) {
  state.add("front", front_, Follows::rank);
  state.add("base", base_, Follows::rank);
  optimizer_.name(state, Follows::rank, "inner ");
  state.add("inner steps in the front", taken_, Follows::rank);
  state.add("inner steps of the warm-up left", warm_up_, Follows::rank);
}

std::unique_ptr<LocalSteps> local_steps_of(const Execution& execution, const Objective& objective,
                                           const InnerSteps& inner) {
  if (!inner || !objective.has_gradients()) return nullptr;
  return std::make_unique<LocalSteps>(execution, objective.layout(), inner);
}

RuleState state_of(double now, Rule& rule, LocalSteps* local) {
  RuleState state = rule.state(now);
  if (local != nullptr) local->name(state);
  return state;
}

}  // namespace grapevine
