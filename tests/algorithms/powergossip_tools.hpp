// Shared by the tests of PowerGossip.
#pragma once
#include <cstring>

#include "actors/algorithms/powergossip.hpp"
#include "tests/algorithms/lockstep.hpp"
#include "tests/algorithms/rules_tools.hpp"

namespace grapevine::test {

/// A compressed matrix, a vector, a matrix that is too small to gain, a compressed convolution.
inline ParameterLayout mixed(DType dtype) {
  ParameterLayout layout(dtype);
  layout.add("a", {6, 5}, true);
  layout.add("b", {7}, true);
  layout.add("c", {2, 2}, true);
  layout.add("d", {4, 3, 2, 2}, true);
  return layout;
}

inline RuleSettings power(const std::string& compress, double gamma = 1) {
  RuleSettings settings;
  settings.compress = compress;
  settings.gamma = gamma;
  return settings;
}

inline constexpr double kBestGamma = 1.3083906286540754;  // of the ring of 8 with weights 1/3

inline ParameterLayout matrix_layout(int64_t rows, int64_t columns) {
  ParameterLayout layout(DType::f64);
  layout.add("X", {rows, columns}, true);
  return layout;
}

inline LockstepOptions powergossip_options(int ranks, const ParameterLayout& layout,
                                           const RuleSettings& rule) {
  LockstepOptions options;
  options.method = "powergossip";
  options.ranks = ranks;
  options.layout = layout;
  options.rule = rule;
  return options;
}

inline bool same_bits(ConstVec a, ConstVec b) {
  return a.size == b.size && a.dtype == b.dtype && std::memcmp(a.data, b.data, a.bytes()) == 0;
}

}  // namespace grapevine::test
