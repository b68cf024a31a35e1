#include "actors/algorithms/relaysum_grad.hpp"

#include <algorithm>

namespace grapevine {

RelaySumGrad::RelaySumGrad(const RuleContext& context)
    : RoundRule(context), relay_(size(), dtype(), false), u_(size(), dtype()) {
  relay_.say(execution_, u_);
}

void RelaySumGrad::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, u_, u_);
  relay_.forget();
  relay_.say(execution_, u_);
  count_ = 1;
}

void RelaySumGrad::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  relay_.enter(near);
  relay_.say(execution_, u_);
}

void RelaySumGrad::on_gradient(double, double lr, ConstVec g, Vec) {
  scale(execution_, 1, x_, u_);
  optimizer_.step(execution_, 0, lr, g, u_, {}, {});
  axpy(execution_, -1, x_, u_);
  relay_.say(execution_, u_);
}

void RelaySumGrad::write(int, size_t edge, Payload& out) { relay_.write(execution_, edge, out); }

void RelaySumGrad::combine(double, int, std::span<const Payload> in) {
  relay_.receive(in);
  const double n = near_.ranks;
  count_ = relay_.count(0);
  for (size_t tree = 0; tree < relay_.trees(); ++tree) {
    count_ = std::min(count_, relay_.count(tree));
    relay_.sum(execution_, tree, 1 / n, 1 / n, 1, x_, x_);
  }
}

}  // namespace grapevine
