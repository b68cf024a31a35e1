#include <cmath>
#include <memory>

#include "kernels/base/random.hpp"
#include "models/files/model_file.hpp"
#include "models/objective.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

std::unique_ptr<Objective> made(const ObjectiveSpec& spec) {
  auto objective = make_objective(spec);
  REQUIRE(objective);
  return std::move(*objective);
}

ObjectiveSpec problem(const std::string& objective, int ranks, int dim) {
  ObjectiveSpec spec;
  spec.objective = objective;
  spec.ranks = ranks;
  spec.dim = dim;
  return spec;
}

Vec view(std::vector<double>& v) { return {v.data(), v.size(), DType::f64}; }

std::vector<double> gradient(Objective& objective, int rank, uint64_t index,
                             std::vector<double> x) {
  std::vector<double> g(x.size());
  objective.gradient(0, rank, index, view(x), view(g));
  return g;
}

std::string refusal(const ObjectiveSpec& spec) {
  const auto objective = make_objective(spec);
  REQUIRE(!objective);
  CHECK(objective.error().exit_status() == 2);
  return objective.error().message;
}

}  // namespace

TEST_CASE("Consensus starts every rank at its own Gaussian point and has no gradients") {
  ObjectiveSpec spec;
  spec.objective = "consensus";
  spec.ranks = 40;
  spec.dim = 500;
  const auto objective = made(spec);
  CHECK_FALSE(objective->has_gradients());
  CHECK(objective->layout().dtype() == DType::f64);
  double sum = 0, squares = 0;
  std::vector<double> x(500), before;
  for (int rank = 0; rank < 40; ++rank) {
    objective->initial_point(rank, view(x));
    CHECK(x != before);
    before = x;
    for (const double v : x)
      sum += v, squares += v * v;
  }
  CHECK(std::abs(sum / 20000) < 4 / std::sqrt(20000.0));
  CHECK(std::abs(squares / 20000 - 1) < 4 * std::sqrt(2 / 20000.0));
  CHECK(std::isnan(objective->evaluate(0, -1, view(x)).accuracy));
}

TEST_CASE("A diagonal quadratic's gradient is the slope of the loss it returns") {
  ObjectiveSpec spec = problem("diagonal", 3, 7);
  spec.mu = 0.25;
  spec.zeta2 = 2;
  const auto objective = made(spec);
  Random random(1, 0, Purpose::test);
  std::vector<double> x(7), unused(7);
  for (double& v : x)
    v = random.normal();
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<double> g = gradient(*objective, rank, 0, x);
    for (size_t k = 0; k < 7; ++k) {
      auto up = x, down = x;
      up[k] += 1e-3;
      down[k] -= 1e-3;
      const double slope = (objective->gradient(0, rank, 0, view(up), view(unused)) -
                            objective->gradient(0, rank, 0, view(down), view(unused))) /
                           2e-3;
      CHECK(g[k] == Approx(slope).epsilon(1e-9).margin(1e-9));
    }
  }
}

TEST_CASE(
    "Diagonal curvatures run from mu to 1, the ranks' optima spread by zeta2 around the common "
    "one") {
  const int ranks = 5, dim = 4;
  ObjectiveSpec spec = problem("diagonal", ranks, dim);
  spec.mu = 0.1;
  spec.zeta2 = 3;
  const auto objective = made(spec);
  std::vector<double> zero(dim), optimum(dim);
  std::vector<std::vector<double>> own(ranks, zero);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at_zero = gradient(*objective, rank, 0, zero);
    for (int k = 0; k < dim; ++k) {
      auto unit = zero;
      unit[k] = 1;
      const double curvature = gradient(*objective, rank, 0, unit)[k] - at_zero[k];
      CHECK(curvature == Approx(0.1 + 0.3 * k));
      own[rank][k] = -at_zero[k] / curvature;
      optimum[k] += own[rank][k] / ranks;
    }
  }
  double spread = 0;
  for (const auto& o : own) {
    for (int k = 0; k < dim; ++k)
      spread += (o[k] - optimum[k]) * (o[k] - optimum[k]) / ranks;
  }
  CHECK(spread == Approx(3));
  CHECK(objective->evaluate(0, -1, view(optimum)).loss == Approx(0).margin(1e-20));
  CHECK(objective->evaluate(0, -1, view(zero)).loss > 0);

  // Without the knob the common optimum is the same and nobody's differs from it.
  spec.zeta2 = 0;
  const auto alike = made(spec);
  for (const double g : gradient(*alike, 3, 0, optimum))
    CHECK(std::abs(g) < 1e-12);
}

TEST_CASE("mu 0 leaves a gradient of pure noise, keyed by rank and index") {
  ObjectiveSpec spec = problem("quadratic", 2, 2000);
  spec.mu = 0;
  spec.noise = 0.5;
  const auto objective = made(spec);
  const std::vector<double> x(2000, 3.0);
  const auto g = gradient(*objective, 1, 17, x);
  double squares = 0;
  for (const double v : g)
    squares += v * v;
  CHECK(std::abs(squares / 2000 / 0.25 - 1) < 4 * std::sqrt(2 / 2000.0));
  CHECK(g == gradient(*objective, 1, 17, std::vector<double>(2000, -1.0)));
  CHECK(g != gradient(*objective, 0, 17, x));
  CHECK(g != gradient(*objective, 1, 18, x));
}

TEST_CASE("One diagonal coordinate has curvature mu") {
  ObjectiveSpec spec = problem("diagonal", 1, 1);
  spec.mu = 0.5;
  const auto objective = made(spec);
  CHECK(gradient(*objective, 0, 0, {1.0})[0] - gradient(*objective, 0, 0, {0.0})[0] == Approx(0.5));
}

TEST_CASE("An impossible objective is refused in one line that names it and what is accepted") {
  ObjectiveSpec spec = problem("quadratic", 2, 4);
  spec.objective = "cubic";
  CHECK(refusal(spec) ==
        "objective is \"cubic\", accepted: network, quadratic, consensus, "
        "diagonal, scalar, matrix, mean");
  spec = problem("quadratic", 0, 4);
  CHECK(refusal(spec) == "ranks is 0, accepted: 1 or more");
  spec = problem("quadratic", 2, 0);
  CHECK(refusal(spec) == "dim is 0, accepted: 1 or more");
  spec = problem("quadratic", 2, 2000000000);
  CHECK(refusal(spec) == "dim is 2000000000, accepted: at most 1 GiB of numbers");
  spec = problem("quadratic", 2, 4);
  spec.noise = -1;
  CHECK(refusal(spec) == "noise is -1, accepted: 0 or more");
  spec.noise = std::nan("");
  CHECK(refusal(spec) == "noise is nan, accepted: 0 or more");
  spec = problem("quadratic", 2, 4);
  spec.mu = 1.5;
  CHECK(refusal(spec) == "mu is 1.5, accepted: 0 to 1");
  spec = problem("quadratic", 1, 4);
  spec.zeta2 = 1;
  CHECK(refusal(spec) == "zeta2 is 1 with 1 rank, accepted: 0, or at least 2 ranks");
  spec.objective = "network";
  spec.model = "vgg";
  CHECK(refusal(spec) ==
        "model is \"vgg\", accepted: linear, mlp, cnn-small, cnn-big, resnet18, lm-char, "
        "lm-word, gpt-char, gpt:LAYERSxHEADSxWIDTH, or a TorchScript FILE.pt");
  spec.model = "linear";
  spec.batch = 0;
  CHECK(refusal(spec) == "batch is 0, accepted: 1 or more");
}

TEST_CASE("An analytic objective saves its vector as one fp64 tensor") {
  const test::Scratch scratch;
  const auto objective = made(problem("quadratic", 1, 3));
  std::vector<double> x = {1, 2, 3}, back(3);
  REQUIRE(objective->save_model(scratch.path(), view(x)));
  REQUIRE(load_parameters(scratch.path("model.safetensors"), objective->layout(), view(back)));
  CHECK(back == x);
}

}  // namespace grapevine
