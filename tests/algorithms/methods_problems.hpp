// The problems on which the round methods are measured, and how far from the answer a run is.
#pragma once
#include "models/analytic.hpp"
#include "tests/algorithms/lockstep.hpp"

namespace grapevine::test {

inline constexpr const char* kBelowThird = "uniform:0.32333333333333333";  // 1/3 - .01

/// Random quadratics of 10 dimensions for 16 ranks, the optimum 10 away.
inline std::unique_ptr<Objective> quadratics(double zeta2, uint64_t seed = 1) {
  ObjectiveSpec spec;
  spec.ranks = 16;
  spec.dim = 10;
  spec.zeta2 = zeta2;
  spec.mu = 0.5;
  spec.seed = seed;
  return *make_quadratic(spec);
}

/// One matrix per rank for 8 ranks: no gradients. `entries` is gaussian or sines.
inline std::unique_ptr<Objective> matrices(int rows, int columns, const std::string& entries) {
  ObjectiveSpec spec;
  spec.ranks = 8;
  spec.rows = rows;
  spec.columns = columns;
  spec.entries = entries;
  return *make_matrix(spec);
}

/// f at the mean of all ranks, minus the minimum.
inline double suboptimality(Objective& objective, const Lockstep& run) {
  const Lockstep::Row mean = run.mean();
  const auto size = static_cast<size_t>(mean.size());
  return objective.evaluate(0, -1, {mean.data(), size, DType::f64}).loss;
}

}  // namespace grapevine::test
