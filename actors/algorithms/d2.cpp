#include "actors/algorithms/d2.hpp"

#include <utility>

namespace grapevine {

D2::D2(const RuleContext& context) : GossipRule(context), c_(execution_, size(), dtype()) {}

void D2::reset(double now, ConstVec x) {
  GossipRule::reset(now, x);
  scale(execution_, 0, c_, c_);
}

RuleState D2::state(double now) {
  RuleState state = GossipRule::state(now);
  state.add("c", c_, Follows::graph);
  return state;
}

void D2::enter(const Neighbourhood& near) {
  GossipRule::enter(near);
  scale(execution_, 0, c_, c_);
}

void D2::write(int, size_t, Payload& out) {
  grapevine::combine(execution_, {{{1, x_}, {1, c_}}}, out.writable(dtype(), size()));
  sent_ = out;
}

void D2::combine(double, int, std::span<const Received> in) {
  axpy(execution_, 1, x_, c_);                                // y: x is x + u here
  gossip_.average(execution_, in, 0, c_);                     // x'
  grapevine::combine(execution_, {{{1, c_}, {-1, x_}}}, x_);  // c'
  std::swap(x_, c_);
}

}  // namespace grapevine
