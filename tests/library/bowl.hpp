// Bowl: an objective as a library's user writes one, f = |x|^2 / 2, that does something else where
// a test says so.
#pragma once
#include <grapevine/grapevine.hpp>

namespace grapevine::test {

class Bowl : public Objective {
 public:
  std::function<void(int rank)> on_start = [](int) {};
  std::function<void(int rank, uint64_t index)> on_gradient = [](int, uint64_t) {};
  ParameterLayout shape = ParameterLayout::flat(4, DType::f64);

  const ParameterLayout& layout() const override { return shape; }
  void initial_point(int rank, Vec x) const override {
    on_start(rank);
    for (size_t k = 0; k < x.size; ++k)
      x.as<double>()[k] = 1 + static_cast<double>(k);
  }
  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    on_gradient(rank, index);
    double loss = 0;
    for (size_t k = 0; k < x.size; ++k) {
      g.as<double>()[k] = x.as<double>()[k];
      loss += 0.5 * x.as<double>()[k] * x.as<double>()[k];
    }
    return loss;
  }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "a bowl"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }
};

/// Four ranks, some 50 gradients each.
inline Settings short_run(Clock clock) {
  Settings settings;
  settings.clock = clock;
  settings.ranks = 4;
  settings.threads = 2;
  settings.gradients = 200;
  settings.sample_s = clock == Clock::wall ? 1e-3 : 5;
  settings.objective.objective = "quadratic";
  return settings;
}

}  // namespace grapevine::test
