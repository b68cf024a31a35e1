// Random quadratics: their curvature, and everything that is known of them in closed form.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "models/dense.hpp"
#include "models/objective.hpp"
#include "tests/catch.hpp"
#include "tests/models/objective_tools.hpp"

namespace grapevine {

using namespace test;

namespace {

ObjectiveSpec quadratics(int ranks, int dim, double mu, double zeta2, double r0) {
  ObjectiveSpec spec = problem("quadratic", ranks, dim);
  spec.mu = mu;
  spec.zeta2 = zeta2;
  spec.r0 = r0;
  return spec;
}

/// The limit of gradient descent of all ranks together.
Point descended(Objective& objective, int ranks, int steps = 800) {
  Point x(objective.layout().size());
  for (int step = 0; step < steps; ++step) {
    const Point g = mean_gradient(objective, ranks, x);
    for (size_t k = 0; k < x.size(); ++k)
      x[k] -= g[k];
  }
  return x;
}

/// The rows of H_rank, from the gradients at the unit vectors.
std::vector<Point> curvature(Objective& objective, int rank, size_t dim) {
  const Point at_zero = gradient(objective, rank, Point(dim));
  std::vector<Point> rows;
  for (size_t k = 0; k < dim; ++k) {
    Point unit(dim);
    unit[k] = 1;
    rows.push_back(gradient(objective, rank, unit));
    for (size_t j = 0; j < dim; ++j)
      rows[k][j] -= at_zero[j];
  }
  return rows;
}

}  // namespace

TEST_CASE("Random quadratics have the curvature asked for, turned another way for each rank") {
  const int dim = 6;
  const auto objective = made(quadratics(3, dim, 0.5, 1, 10));
  for (int rank = 0; rank < 3; ++rank) {
    const auto h = curvature(*objective, rank, dim);
    double trace = 0, trace_of_square = 0, expected = 0, expected_of_square = 0;
    for (size_t r = 0; r < dim; ++r) {
      trace += h[r][r];
      trace_of_square += squares(h[r]);
      for (size_t c = 0; c < r; ++c)
        CHECK(h[r][c] == Approx(h[c][r]).margin(1e-13));
      const double singular = 0.5 + 0.1 * static_cast<double>(r);
      expected += std::pow(singular, 2);
      expected_of_square += std::pow(singular, 4);
    }
    CHECK(trace == Approx(expected));
    CHECK(trace_of_square == Approx(expected_of_square));
    CHECK(std::abs(h[0][1]) > 1e-3);
  }
  CHECK(curvature(*objective, 0, dim) != curvature(*objective, 1, dim));
}

TEST_CASE("Rotations are uniform: on average a rotated diagonal is a multiple of the identity") {
  const Point values = {0, 1, 5};
  Point mean(9);
  Random random(3, 0, Purpose::test);
  const int draws = 20000;
  for (int k = 0; k < draws; ++k) {
    const Point drawn = rotated_diagonal(values, random);
    for (size_t i = 0; i < 9; ++i)
      mean[i] += drawn[i] / draws;
  }
  for (size_t i = 0; i < 9; ++i)
    CHECK(std::abs(mean[i] - (i % 4 == 0 ? 2 : 0)) < 0.06);
}

TEST_CASE("Random quadratics agree with their closed forms: zeta2, r0, f - f* down to 1e-27") {
  for (const double mu : {0.3, 1.0}) {
    const int ranks = 5, dim = 8;
    const auto objective = made(quadratics(ranks, dim, mu, 2.5, 7));
    Point optimum = descended(*objective, ranks);
    CHECK(std::sqrt(squares(optimum)) == Approx(7));
    CHECK(objective->evaluate(0, -1, view(optimum)).loss < 1e-27);
    double zeta2 = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      zeta2 += squares(gradient(*objective, rank, optimum)) / ranks;
    }
    CHECK(zeta2 == Approx(2.5));
    // f is the mean of the losses, and a gradient half the slope of its loss.
    const auto mean_loss = [&](Point x) {
      double sum = 0;
      Point unused(x.size());
      for (int rank = 0; rank < ranks; ++rank) {
        sum += objective->gradient(0, rank, 0, view(x), view(unused)) / ranks;
      }
      return sum;
    };
    Point x(dim);
    CHECK(objective->evaluate(0, -1, view(x)).loss ==
          Approx(mean_loss(x) - mean_loss(optimum)).epsilon(1e-10));
    Point up = x, down = x;
    up[2] += 1e-3;
    down[2] -= 1e-3;
    CHECK(mean_gradient(*objective, ranks, x)[2] ==
          Approx((mean_loss(up) - mean_loss(down)) / 4e-3).epsilon(1e-8));
    Point near = optimum;
    near[1] += 1e-12;
    CHECK(objective->evaluate(0, -1, view(near)).loss > 5e-26);
  }
}

TEST_CASE("Scaling zeta2 moves the ranks apart and leaves the common problem as it was") {
  const auto near = made(quadratics(4, 3, 0.5, 0.01, 10)), far = made(quadratics(4, 3, 0.5, 4, 10)),
             same = made(quadratics(4, 3, 0.5, 0, 10));
  const Point x = {1, 2, 3};
  const Point wanted = mean_gradient(*same, 4, x);
  for (Objective* other : {near.get(), far.get()}) {
    const Point got = mean_gradient(*other, 4, x);
    for (size_t k = 0; k < 3; ++k)
      CHECK(got[k] == Approx(wanted[k]).epsilon(1e-12));
  }
  const double once = std::sqrt(squares(gradient(*far, 1, descended(*far, 4))));
  const double little = std::sqrt(squares(gradient(*near, 1, descended(*near, 4))));
  CHECK(once / little == Approx(20).epsilon(1e-6));
}

TEST_CASE("The published setting starts some 59 above the minimum: r0^2 times the mean s^2") {
  double mean = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ObjectiveSpec spec = quadratics(16, 10, 0.5, 1, 10);
    spec.seed = seed;
    Point zero(10);
    mean += made(spec)->evaluate(0, -1, view(zero)).loss / 20;
  }
  CHECK(mean == Approx(58.8).epsilon(0.02));
}

TEST_CASE("Quadratics of mu 1 need no matrices, others are refused where these would not fit") {
  const auto large = made(quadratics(2, 200000, 1, 1, 10));
  CHECK(gradient(*large, 0, Point(200000, 1.0)).size() == 200000);
  CHECK(refusal(quadratics(4, 2000, 0.5, 0, 10)) ==
        "dim is 2,000 with mu 0.5 and 4 ranks, each with a matrix, accepted: at most 1,024, or any "
        "with mu 0 or 1");
  CHECK(refusal(quadratics(4, 4, 0, 1, 10)) ==
        "zeta2 is 1 with mu 0, where a gradient is noise alone, accepted: 0");
  CHECK(refusal(quadratics(4, 4, 0.5, 1, -1)) == "r0 is -1, accepted: 0 or more");
}

}  // namespace grapevine
