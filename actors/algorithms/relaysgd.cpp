#include "actors/algorithms/relaysgd.hpp"

#include <algorithm>

namespace grapevine {

RelaySgd::RelaySgd(const RuleContext& context, bool reuses)
    : RoundRule(context), relay_(size(), dtype(), reuses) {
  const Normalisation n = settings_.normalisation;
  if (n == Normalisation::x0 || n == Normalisation::previous) filler_ = Buffer(size(), dtype());
  reset(0, context.x);
}

void RelaySgd::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  if (filler_) scale(execution_, 1, x, filler_);
  relay_.forget();
  relay_.say(execution_, x_);
  count_ = 1;
}

void RelaySgd::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  relay_.enter(near);
  relay_.say(execution_, x_);
}

void RelaySgd::on_gradient(double, double lr, ConstVec g, Vec) {
  if (settings_.normalisation == Normalisation::previous) scale(execution_, 1, x_, filler_);
  if (settings_.relay_lr) lr *= 1 + near_.relay_delay;
  optimizer_.step(execution_, 0, lr, g, x_, {}, {});  // x is y from here to combine()
  relay_.say(execution_, x_);
}

void RelaySgd::write(int, size_t edge, Payload& out) { relay_.write(execution_, edge, out); }

void RelaySgd::combine(double, int, std::span<const Payload> in) {
  relay_.receive(in);
  count_ = relay_.count(0);
  for (size_t tree = 0; tree < relay_.trees(); ++tree) {
    count_ = std::min(count_, relay_.count(tree));
    average(tree);
  }
}

void RelaySgd::average(size_t tree) {
  const double count = relay_.count(tree);
  const bool fills = settings_.normalisation != Normalisation::counts;
  const double missing = fills ? std::max(near_.ranks - count, 0.0) : 0;
  const double n = count + missing;
  const double own = settings_.normalisation == Normalisation::own ? 1 + missing : 1;
  relay_.sum(execution_, tree, own / n, 1 / n, missing / n, filler_, x_);
}

}  // namespace grapevine
