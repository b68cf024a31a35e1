#include "actors/algorithms/d_psgd.hpp"

namespace grapevine {

void DPsgd::on_gradient(double, double lr, ConstVec g, Vec) {
  optimizer_.step(execution_, 0, lr, g, x_, {}, {});  // x is h from here to combine()
}

void DPsgd::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  gossip_.enter(near);
}

void DPsgd::write(int, size_t, Payload& out) {
  scale(execution_, 1, x_, out.writable(dtype(), size()));
}

void DPsgd::combine(double, int, std::span<const Payload> in) {
  gossip_.average(execution_, in, 0, x_);
}

}  // namespace grapevine
