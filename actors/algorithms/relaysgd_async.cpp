#include "actors/algorithms/relaysgd_async.hpp"

namespace grapevine {

RelaySgdAsync::RelaySgdAsync(const RuleContext& context)
    : RelaySgd(context, true), y_(size(), dtype()) {
  reset(0, context.x);
}

void RelaySgdAsync::reset(double now, ConstVec x) {
  RelaySgd::reset(now, x);
  scale(execution_, 1, x, y_);
  relay_.say(execution_, y_);
}

void RelaySgdAsync::enter(const Neighbourhood& near) {
  RelaySgd::enter(near);
  relay_.say(execution_, y_);
}

void RelaySgdAsync::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  RelaySgd::on_gradient(now, lr, g, copy);
  scale(execution_, 1, x_, y_);
  relay_.say(execution_, y_);
}

void RelaySgdAsync::combine(double now, int phase, std::span<const Payload> in) {
  RelaySgd::combine(now, phase, in);
  relay_.say(execution_, y_);  // write() comes after this
}

}  // namespace grapevine
