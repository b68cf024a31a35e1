#include "actors/algorithms/rule.hpp"

#include <cmath>

namespace grapevine {

// g overwrites front: 8 words more than the gradient.
// On a device the host does not know at once whether front is finite, and the steps need one vector
// more.
void Rule::take_as_gradient(double now, double lr, Vec front, Vec base, Vec finite) {
  if (execution_.device == nullptr && all_finite(execution_, front)) {
    fill(execution_, 1, finite);
    combine(execution_, {{{1, base}, {-1, front}}}, front);
  } else {
    Buffer moved(execution_, front.size, front.dtype);
    mix_and_take(execution_, 0, front, base, moved, {}, finite);
    scale(execution_, -1, moved, front);
  }
  on_gradient(now, lr, front, {});
  read(now, front);
  scale(execution_, 1, front, base);
}

RoundRule::RoundRule(const RuleContext& context)
    : Rule(context.execution),
      rank_(context.rank),
      seed_(context.seed),
      layout_(context.layout),
      settings_(context.settings),
      optimizer_(execution_, layout_, settings_.optimizer),
      x_(execution_, layout_.size(), layout_.dtype()) {
  scale(execution_, 1, context.x, x_);
}

void RoundRule::read(double, Vec out) { scale(execution_, 1, x_, out); }

void RoundRule::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset(execution_);
}

void RoundRule::on_gradient(double, double lr, ConstVec g, Vec) {
  optimizer_.step(execution_, 0, lr, g, x_, {}, {});
}

RuleState RoundRule::state(double) {
  RuleState state;
  state.add("x", x_, Follows::model);
  optimizer_.name(state, Follows::rank);
  return state;
}

void RoundRule::add_conserved(double, Vec sum) { accumulate(execution_, x_, sum); }

double RoundRule::distance(size_t, const Payload& payload) {
  if (payload.dtype != dtype()) return 0;
  const double squares = dot(execution_, payload.vec(), payload.vec());
  return squares - squares;  // 0 or NaN
}

void RoundRule::enter(const Neighbourhood& near) { near_ = near; }

}  // namespace grapevine
