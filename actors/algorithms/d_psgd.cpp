#include "actors/algorithms/d_psgd.hpp"

namespace grapevine {

void DPsgd::combine(double, int, std::span<const Received> in) {
  gossip_.average(execution_, in, 0, x_);
}

}  // namespace grapevine
