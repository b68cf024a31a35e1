// Logistic regression: what the "linear" model is on the two-class sets of LIBSVM.
#include <cmath>

#include "models/data/data_set.hpp"
#include "models/objective.hpp"
#include "tests/catch.hpp"
#include "tests/models/objective_tools.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {

using namespace test;

namespace {

ObjectiveSpec logistic(const std::string& dataset, const std::string& folder) {
  ObjectiveSpec spec;
  spec.model = "linear";
  spec.dataset = dataset;
  spec.data_dir = folder;
  spec.batch = 64;
  spec.decay_norms_and_biases = false;
  return spec;
}

/// SGD with weight decay on whatever decays; the evaluation before and after.
std::pair<Evaluation, Evaluation> trained(Objective& objective, int steps, float lr, float decay) {
  Flat x(objective.layout().size()), g(x.size());
  objective.initial_point(0, view(x));
  const Evaluation before = objective.evaluate(0, -1, view(x));
  for (int step = 0; step < steps; ++step) {
    objective.gradient(0, 0, static_cast<uint64_t>(step), view(x), view(g));
    for (const ParameterEntry& entry : objective.layout().entries()) {
      for (size_t k = entry.offset; k < entry.offset + entry.size(); ++k) {
        x[k] -= lr * (g[k] + (entry.decays ? decay * x[k] : 0));
      }
    }
  }
  return {before, objective.evaluate(0, -1, view(x))};
}

}  // namespace

TEST_CASE("On two classes the linear model is logistic regression in the difference of its rows") {
  // loss = log(1 + exp(-y (w'a + c))), w = w_1 - w_0, c = c_1 - c_0, y = +-1: by hand.
  const test::Scratch scratch;
  scratch.file("a9a", "+1 1:1 3:2\n-1 2:1 123:1\n-1 1:1\n+1 2:3\n");
  scratch.file("a9a.t", "+1 1:1\n");
  ObjectiveSpec spec = logistic("a9a", scratch.path());
  spec.batch = 4;
  const auto objective = made(spec);
  const auto data = read_data_set("a9a", scratch.path());
  REQUIRE(data);
  Flat x(objective->layout().size()), g(x.size());
  REQUIRE(x.size() == 2 * 123 + 2);
  objective->initial_point(0, view(x));
  const double loss = objective->gradient(0, 0, 0, view(x), view(g));
  double expected = 0;
  std::vector<double> slope(123);
  double slope_of_bias = 0;
  for (size_t sample = 0; sample < 4; ++sample) {
    const float* a = data->train.features.data() + 123 * sample;
    double score = x[247] - x[246];
    for (size_t k = 0; k < 123; ++k)
      score += (x[123 + k] - x[k]) * a[k];
    const double y = data->train.labels[sample] == 1 ? 1 : -1;
    expected += std::log1p(std::exp(-y * score)) / 4;
    const double pull = -y / (1 + std::exp(y * score)) / 4;
    for (size_t k = 0; k < 123; ++k)
      slope[k] += pull * a[k];
    slope_of_bias += pull;
  }
  CHECK(loss == Approx(expected).epsilon(1e-5));
  for (size_t k = 0; k < 123; ++k) {
    CHECK(g[123 + k] == Approx(slope[k]).margin(1e-6));
    CHECK(g[k] == Approx(-slope[k]).margin(1e-6));
  }
  CHECK(g[247] == Approx(slope_of_bias).margin(1e-6));
  CHECK(objective->layout().entries()[0].decays);
  CHECK_FALSE(objective->layout().entries()[1].decays);
}

TEST_CASE("Logistic regression with weight decay reaches the known accuracy on a9a and w8a") {
  const std::string folder = test::real_data("logistic regression on a9a and w8a");
  if (folder.empty()) return;
  const auto [before, after] = trained(*made(logistic("a9a", folder)), 2000, 0.2f, 1e-4f);
  CHECK(before.loss > 0.6);
  CHECK(after.loss < 0.335);
  CHECK(after.accuracy > 0.845);
  CHECK(after.accuracy < 0.855);
  const auto rare = trained(*made(logistic("w8a", folder)), 6000, 1.0f, 1e-5f).second;
  CHECK(rare.accuracy > 0.98);  // 97.0 % are of one class
  CHECK(rare.loss < 0.08);
}

}  // namespace grapevine
