#include "actors/algorithms/relaysgd.hpp"

#include <algorithm>

namespace grapevine {

RelaySgd::RelaySgd(const RuleContext& context, bool reuses) : RelayRule(context, reuses) {
  const Normalisation n = settings_.normalisation;
  if (n == Normalisation::x0 || n == Normalisation::previous)
    filler_ = Buffer(execution_, size(), dtype());
  if (filler_) scale(execution_, 1, context.x, filler_);
  relay_.say(execution_, x_);
}

void RelaySgd::reset(double now, ConstVec x) {
  if (filler_) scale(execution_, 1, x, filler_);
  RelayRule::reset(now, x);
}

RuleState RelaySgd::state(double now) {
  RuleState state = RelayRule::state(now);
  if (filler_) state.add("filler", filler_, Follows::rank);
  return state;
}

void RelaySgd::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  if (settings_.normalisation == Normalisation::previous) scale(execution_, 1, x_, filler_);
  if (settings_.relay_lr) lr *= 1 + near_.relay_delay;
  RelayRule::on_gradient(now, lr, g, copy);  // x is y from here to combine()
  say();
}

void RelaySgd::take_in(size_t tree) {
  const double count = relay_.count(tree);
  const bool fills = settings_.normalisation != Normalisation::counts;
  const double missing = fills ? std::max(near_.ranks - count, 0.0) : 0;
  const double n = count + missing;
  const double own = settings_.normalisation == Normalisation::own ? 1 + missing : 1;
  relay_.sum(execution_, tree, own / n, 1 / n, missing / n, filler_, x_);
}

}  // namespace grapevine
