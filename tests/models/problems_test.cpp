// The problems of the published comparisons but for quadratics: scalar, matrices, mean estimation.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "models/objective.hpp"
#include "tests/catch.hpp"
#include "tests/models/objective_tools.hpp"

namespace grapevine {

using namespace test;

TEST_CASE("The scalar problem has its published optimum, zeta2 and first steps") {
  const int n = 16;
  const auto objective = made(problem("scalar", n, 99));
  CHECK(objective->layout().size() == 1);
  Point x = {0};
  CHECK(objective->evaluate(0, -1, view(x)).loss == Approx(0.18).epsilon(1e-12));
  double zeta2 = 0;
  for (int rank = 0; rank < n; ++rank)
    zeta2 += squares(gradient(*objective, rank, {0.18})) / n;
  CHECK(zeta2 == Approx(8.26804).epsilon(1e-9));
  // All-reduce and D-PSGD on the ring, step size 0.1: Vogels et al.'s update rules.
  Point own(n);
  for (int t = 1; t <= 1000; ++t) {
    x[0] -= 0.1 * mean_gradient(*objective, n, x)[0];
    Point half(n);
    for (int i = 0; i < n; ++i)
      half[i] = own[i] - 0.1 * gradient(*objective, i, {own[i]})[0];
    for (int i = 0; i < n; ++i)
      own[i] = (half[(i + 15) % n] + half[i] + half[(i + 1) % n]) / 3;
    const double gossip = std::accumulate(own.begin(), own.end(), 0.0) / n - 0.18;
    if (t == 1) CHECK(std::abs(x[0] - 0.18 + 1.6875e-1) < 1e-12);
    if (t == 10) CHECK(std::abs(x[0] - 0.18 + 9.440288550877e-2) < 1e-12);
    if (t == 10) CHECK(std::abs(gossip + 9.280467374662e-2) < 1e-12);
    if (t == 200) CHECK(std::abs(x[0] - 0.18 + 4.461981703563e-7) < 1e-12);
    if (t == 1000) CHECK(std::abs(gossip + 1.543222880293e-2) < 1e-12);
  }
}

TEST_CASE("Matrices of sines are those of the published consensus figures") {
  ObjectiveSpec spec = problem("matrix", 8, 99);
  spec.rows = 6;
  spec.columns = 5;
  spec.entries = "sines";
  const auto objective = made(spec);
  CHECK_FALSE(objective->has_gradients());
  REQUIRE(objective->layout().entries().size() == 1);
  CHECK(objective->layout().entries()[0].shape == std::vector<int64_t>{6, 5});
  Point mean(30);
  for (int rank = 0; rank < 8; ++rank) {
    const Point x = start(*objective, rank);
    for (size_t k = 0; k < 30; ++k)
      mean[k] += x[k] / 8;
  }
  double error = 0;
  for (int rank = 0; rank < 8; ++rank) {
    Point x = start(*objective, rank);
    for (size_t k = 0; k < 30; ++k)
      x[k] -= mean[k];
    error += squares(x) / 8;
  }
  CHECK(std::abs(error - 13.491316247754) < 1e-11);
}

TEST_CASE("Matrices are Gaussian, or have the singular values asked for") {
  ObjectiveSpec spec = problem("matrix", 3, 99);
  spec.rows = 40;
  spec.columns = 60;
  const auto gaussian = made(spec);
  CHECK(std::abs(squares(start(*gaussian, 1)) / 2400 - 1) < 4 * std::sqrt(2 / 2400.0));
  spec.spectrum_decay = 2;
  const auto decaying = made(spec);
  const Point x = start(*decaying, 1);
  CHECK(x != start(*decaying, 2));
  CHECK(squares(x) == Approx(2400));
  // The trace of (X X')^2 is the sum of the fourth powers of the singular values.
  double fourth = 0, wanted = 0, sum = 0;
  for (size_t a = 0; a < 40; ++a) {
    for (size_t b = 0; b < 40; ++b) {
      const double product =
          std::inner_product(x.begin() + 60 * a, x.begin() + 60 * a + 60, x.begin() + 60 * b, 0.0);
      fourth += product * product;
    }
    sum += std::pow(a + 1, -4);
    wanted += std::pow(a + 1, -8);
  }
  CHECK(fourth == Approx(wanted * std::pow(2400 / sum, 2)));
}

TEST_CASE("An impossible matrix is refused") {
  ObjectiveSpec spec = problem("matrix", 2, 4);
  spec.rows = 0;
  CHECK(refusal(spec) == "rows is 0, accepted: 1 or more");
  spec.rows = spec.columns = 2000000000;
  CHECK(refusal(spec) ==
        "rows x columns is 2000000000 x 2000000000, accepted: at most 1 GiB of numbers");
  spec.rows = spec.columns = 3;
  spec.entries = "ones";
  CHECK(refusal(spec) == "entries is \"ones\", accepted: gaussian, sines");
  spec.entries = "sines";
  spec.spectrum_decay = 1;
  CHECK(refusal(spec) ==
        "spectrum_decay is 1 with entries sines, accepted: 0, or entries gaussian");
}

TEST_CASE("Mean estimation: x minus the gradient is a sample, whatever x is") {
  ObjectiveSpec spec = problem("mean", 4, 3);
  spec.zeta2 = 9;
  const auto objective = made(spec);
  Point common(3);
  const int draws = 40000;
  double spread = 0;
  std::vector<Point> means(4, Point(3));
  for (int rank = 0; rank < 4; ++rank) {
    double variance = 0;
    for (int index = 0; index < draws; ++index) {
      const Point g = gradient(*objective, rank, {1, 2, 3}, static_cast<uint64_t>(index));
      for (size_t k = 0; k < 3; ++k) {
        const double sample = static_cast<double>(k + 1) - g[k];
        means[rank][k] += sample / draws;
        variance += sample * sample / (3 * draws);
      }
    }
    CHECK(variance - squares(means[rank]) / 3 == Approx(1).margin(0.03));
    for (size_t k = 0; k < 3; ++k)
      common[k] += means[rank][k] / 4;
  }
  for (Point own : means) {
    for (size_t k = 0; k < 3; ++k)
      own[k] -= common[k];
    spread += squares(own) / 4;
  }
  CHECK(spread == Approx(9).epsilon(0.02));
  CHECK(std::sqrt(squares(common)) == Approx(10).epsilon(0.01));
  CHECK(objective->evaluate(0, -1, view(common)).loss < 1e-4);
  const Point at_zero = gradient(*objective, 2, {0, 0, 0}, 17),
              at_one = gradient(*objective, 2, {1, 1, 1}, 17);
  for (size_t k = 0; k < 3; ++k)
    CHECK(at_one[k] == Approx(at_zero[k] + 1));
}

}  // namespace grapevine
