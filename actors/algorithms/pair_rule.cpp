#include "actors/algorithms/pair_rule.hpp"

namespace grapevine {

PairRule::PairRule(const RuleContext& context)
    : execution_(context.execution),
      optimizer_(context.layout, context.settings.optimizer),
      x_(context.layout.size(), context.layout.dtype()),
      messages_(PairMessages::make(context)) {
  scale(execution_, 1, context.x, x_);
}

void PairRule::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset(execution_);
}

RuleState PairRule::state(double) {
  RuleState state;
  state.add("x", x_, Follows::model);
  optimizer_.name(state, Follows::model);
  messages_->name(state);
  return state;
}

void PairRule::add_conserved(double, Vec sum) { add_to(execution_, x_, sum); }

}  // namespace grapevine
