// Shared by the tests of analytic objectives: points in double, and an objective's values at
// them.
#pragma once
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "models/objective.hpp"
#include "tests/catch.hpp"

namespace grapevine::test {

using Point = std::vector<double>;

inline Vec view(Point& v) { return {v.data(), v.size(), DType::f64}; }

inline ObjectiveSpec problem(const std::string& objective, int ranks, int dim) {
  ObjectiveSpec spec;
  spec.objective = objective;
  spec.ranks = ranks;
  spec.dim = dim;
  return spec;
}

inline std::unique_ptr<Objective> made(const ObjectiveSpec& spec) {
  auto objective = make_objective(spec);
  if (!objective) FAIL(objective.error().message);
  return std::move(*objective);
}

inline std::string refusal(const ObjectiveSpec& spec) {
  const auto objective = make_objective(spec);
  REQUIRE(!objective);
  CHECK(objective.error().exit_status() == 2);
  return objective.error().message;
}

inline Point gradient(Objective& objective, int rank, Point x, uint64_t index = 0) {
  Point g(x.size());
  objective.gradient(0, rank, index, view(x), view(g));
  return g;
}

inline Point mean_gradient(Objective& objective, int ranks, const Point& x) {
  Point mean(x.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const Point g = gradient(objective, rank, x);
    for (size_t k = 0; k < x.size(); ++k)
      mean[k] += g[k] / ranks;
  }
  return mean;
}

inline double squares(const Point& x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}

inline Point start(const Objective& objective, int rank) {
  Point x(objective.layout().size());
  objective.initial_point(rank, view(x));
  return x;
}

// --- networks: fp32

using Flat = std::vector<float>;

inline Vec view(Flat& x) { return {x.data(), x.size(), DType::f32}; }

inline Flat start(const Objective& objective) {
  Flat x(objective.layout().size());
  objective.initial_point(0, view(x));
  return x;
}

inline Flat gradient(Objective& objective, int thread, int rank, uint64_t index, Flat x) {
  Flat g(x.size(), NAN);  // whatever was there is overwritten
  objective.gradient(thread, rank, index, view(x), view(g));
  return g;
}

}  // namespace grapevine::test
