#include "actors/algorithms/d2.hpp"

#include <utility>

namespace grapevine {

D2::D2(const RuleContext& context)
    : RoundRule(context), gossip_(context.settings), c_(size(), dtype()) {}

void D2::on_gradient(double, double lr, ConstVec g, Vec) {
  optimizer_.step(execution_, 0, lr, g, x_, {}, {});  // x is x + u from here to combine()
}

void D2::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, c_, c_);
}

void D2::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  gossip_.enter(near);
  scale(execution_, 0, c_, c_);
}

void D2::write(int, size_t, Payload& out) {
  grapevine::combine(execution_, {{{1, x_}, {1, c_}}}, out.writable(dtype(), size()));
}

void D2::combine(double, int, std::span<const Payload> in) {
  axpy(execution_, 1, x_, c_);                                // y
  gossip_.average(execution_, in, 0, c_);                     // x'
  grapevine::combine(execution_, {{{1, c_}, {-1, x_}}}, x_);  // c'
  std::swap(x_, c_);
}

}  // namespace grapevine
