#include "models/analytic_base.hpp"

#include <fmt/core.h>

#include "kernels/base/spec.hpp"

namespace grapevine {

std::vector<double> Analytic::centred_offsets() const {
  std::vector<double> offsets = drawn_offsets();
  std::vector<double> mean(dim(), 0.0);
  for (size_t i = 0; i < offsets.size(); ++i) {
    mean[i % dim()] += offsets[i] / static_cast<double>(ranks());
  }
  double squares = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] -= mean[i % dim()];
    squares += offsets[i] * offsets[i];
  }
  const double factor = std::sqrt(spec_.zeta2 * static_cast<double>(ranks()) / squares);
  for (double& offset : offsets)
    offset *= factor;
  return offsets;
}

constexpr int kMostDim = 1 << 27;  // a vector of 1 GiB per rank

Status check_analytic(const ObjectiveSpec& spec) {
  if (spec.dim < 1) {
    return user_error(fmt::format("dim is {}, accepted: 1 or more", spec.dim));
  }
  if (spec.dim > kMostDim) {
    return user_error(fmt::format("dim is {}, accepted: at most 1 GiB of numbers", spec.dim));
  }
  const auto out_of_range = [](double value) { return !(value >= 0 && std::isfinite(value)); };
  if (out_of_range(spec.noise)) {
    return user_error(fmt::format("noise is {}, accepted: 0 or more", shown(spec.noise)));
  }
  if (out_of_range(spec.zeta2)) {
    return user_error(fmt::format("zeta2 is {}, accepted: 0 or more", shown(spec.zeta2)));
  }
  if (out_of_range(spec.r0)) {
    return user_error(fmt::format("r0 is {}, accepted: 0 or more", shown(spec.r0)));
  }
  if (spec.zeta2 > 0 && spec.ranks < 2) {
    return user_error(fmt::format("zeta2 is {} with 1 rank, accepted: 0, or at least 2 ranks",
                                  shown(spec.zeta2)));
  }
  return Done{};
}

}  // namespace grapevine
