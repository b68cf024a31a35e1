// A stranger's program: the constants of a ring, a mixed vector and a frame, through the package.
#include <cstdio>

#include "kernels/ops.hpp"
#include "messages/codec.hpp"
#include "topologies/spectrum.hpp"

int main() {
  using namespace grapevine;
  const auto ring = make_topology("ring", 16, 1);
  Buffer x(3, DType::f32), x_tilde(3, DType::f32), mixed(3, DType::f32);
  x_tilde.vec().as<float>()[1] = 4;
  extrapolate({}, 0.25, x, x_tilde, mixed);
  const auto back = decode(encode({.from = 7}), kMaxPayloadBytes);
  std::printf("chi1 %.2f mixed %.1f from %u\n", spectrum(*ring)->chi1,
              mixed.vec().as<float>()[1], back->from);
}
