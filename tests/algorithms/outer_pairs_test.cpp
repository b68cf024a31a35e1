// NoLoCo and GASLoC, whose outer steps random pairs take together, against their equations.
#include <cmath>

#include "kernels/base/random.hpp"
#include "tests/algorithms/lockstep.hpp"
#include "tests/catch.hpp"
#include "topologies/schedule.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

using Matrix = Eigen::MatrixXd;
using Row = Lockstep::Row;

constexpr double kEta = 0.7;
constexpr uint64_t kRounds = 60;
constexpr Eigen::Index kSize = 7;

Matrix random_matrix(uint64_t seed, Eigen::Index rows, Eigen::Index columns) {
  Random random(seed, 0, Purpose::test);
  return Matrix::NullaryExpr(rows, columns, [&] { return random.normal(); });
}

/// The change of x by the rank's inner steps in a round, for any x.
Row moved(int rank, uint64_t round) {
  return 0.1 * random_matrix(1000 * round + static_cast<uint64_t>(rank) + 7, 1, kSize);
}

LockstepOptions options_of(const std::string& method, int ranks, double momentum) {
  LockstepOptions o;
  o.method = method;
  o.ranks = ranks;
  o.topology = ranks > 2 ? "ring" : "chain";
  o.layout = ParameterLayout::flat(static_cast<size_t>(kSize), DType::f64);
  o.rule.optimizer = {.momentum = momentum, .nesterov = true};
  o.start = random_matrix(3, ranks, kSize);
  o.gradient = [](int rank, uint64_t round, const Row&) { return moved(rank, round); };
  return o;
}

Matrix paired(const Matrix& y, uint64_t round) {
  Matrix w = y;
  const int ranks = static_cast<int>(y.rows());
  for (int i = 0; i < ranks; ++i)
    w.row(i) = (y.row(i) + y.row(matched(i, ranks, 1, round))) / 2;
  return w;
}

Matrix gradients(int ranks, uint64_t round) {
  Matrix g(ranks, kSize);
  for (int i = 0; i < ranks; ++i)
    g.row(i) = moved(i, round);
  return g;
}

/// E of squares and products of what a rank is off the mean and of its d, in n ranks.
struct Moments {
  double xx = 1, xd = 0, dd = 0;

  void step(double mu, int n) {
    const double k = n / (2.0 * (n - 1));
    const double next_dd = mu * mu * dd - 2 * mu * kEta * k * xd + kEta * kEta * k * xx;
    const double x_next_d = mu * xd - kEta * k * xx;
    *this = {xx + 2 * x_next_d + next_dd, x_next_d + next_dd, next_dd};
  }
};

}  // namespace

TEST_CASE("NoLoCo follows its equation, and its mean takes heavy-ball steps, for any number") {
  constexpr double kMu = 0.5;
  for (const int ranks : {2, 5, 8}) {
    const LockstepOptions options = options_of("noloco", ranks, kMu);
    Lockstep all(options);
    Matrix theta = options.start, d = Matrix::Zero(ranks, kSize);
    Row mean = theta.colwise().mean(), ball = Row::Zero(kSize);
    for (uint64_t round = 0; round < kRounds; ++round) {
      all.round(kEta);
      const Matrix g = gradients(ranks, round);
      d = kMu * d + kEta * (paired(theta - g, round) - theta);
      theta += d;
      ball = kMu * ball - kEta * g.colwise().mean();
      mean += ball;
    }
    INFO(ranks << " ranks");
    CHECK((all.all() - theta).cwiseAbs().maxCoeff() < 1e-12);
    CHECK((all.mean() - mean).cwiseAbs().maxCoeff() < 1e-12);
  }
}

TEST_CASE("GASLoC follows its equation, and so does its mean, for any number of ranks") {
  constexpr double kGamma = 0.6;
  for (const int ranks : {2, 5, 8}) {
    const LockstepOptions options = options_of("gasloc", ranks, kGamma);
    Lockstep all(options);
    Matrix theta = options.start, before = theta;
    Row mean = theta.colwise().mean(), mean_before = mean;
    for (uint64_t round = 0; round < kRounds; ++round) {
      all.round(kEta);
      const Matrix g = gradients(ranks, round);
      const Matrix y = theta - kEta * g;
      theta = paired(y, round) + kGamma * (y - before);
      before = y;
      const Row mean_y = mean - kEta * g.colwise().mean();
      mean = mean_y + kGamma * (mean_y - mean_before);
      mean_before = mean_y;
    }
    INFO(ranks << " ranks");
    CHECK((all.all() - theta).cwiseAbs().maxCoeff() < 1e-12);
    CHECK((all.mean() - mean).cwiseAbs().maxCoeff() < 1e-12);
  }
}

TEST_CASE("a lost message leaves both ranks of a pair to themselves") {
  for (const char* method : {"noloco", "gasloc"}) {
    LockstepOptions options = options_of(method, 4, 0.5);
    options.lost = [](uint64_t, int, int) { return true; };
    Lockstep lost(options);
    lost.rounds(9, kEta);
    for (int rank = 0; rank < 4; ++rank) {
      LockstepOptions one = options_of(method, 4, 0.5);
      one.lost = [rank](uint64_t, int, int to) { return to == rank; };
      Lockstep alone(one);
      alone.rounds(9, kEta);
      CHECK((alone.x(rank) - lost.x(rank)).cwiseAbs().maxCoeff() < 1e-13);
    }
  }
}

TEST_CASE("NoLoCo's spread shrinks as the moments of random pairs say, .500 to .697 a round") {
  constexpr double kMu = 0.5;
  for (const auto& [n, factor] :
       {std::pair{2, .500}, {4, .628}, {8, .668}, {16, .685}, {64, .697}}) {
    Moments m;
    double before = 0;
    const int rounds = 300;  // two: it turns as it shrinks
    for (int round = 0; round < rounds; ++round) {
      if (round == rounds / 2) before = m.xx + m.dd;
      m.step(kMu, n);
    }
    INFO(n << " ranks");
    CHECK(std::pow((m.xx + m.dd) / before, 2.0 / rounds) == Approx(factor).epsilon(0.01));
  }
  double measured = 0, expected = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    LockstepOptions options = options_of("noloco", 8, kMu);
    options.seed = seed;
    options.start = random_matrix(seed, 8, kSize);
    options.gradient = {};
    Lockstep all(options);
    Moments m;
    m.xx = all.spread();
    for (int round = 0; round < 5; ++round)
      m.step(kMu, 8);
    all.rounds(5, kEta);
    measured += all.spread();
    expected += m.xx;
  }
  CHECK(measured == Approx(expected).epsilon(0.05));
}

TEST_CASE("GASLoC's ranks drift apart above a gamma of .744 for 8 ranks, and not below it") {
  for (const auto& [gamma, grows] : {std::pair{0.68, false}, {0.85, true}}) {
    double logs = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      LockstepOptions options = options_of("gasloc", 8, gamma);
      options.seed = seed;
      options.gradient = {};
      Lockstep all(options);
      const double before = all.spread();
      all.rounds(200, kEta);
      logs += std::log(all.spread() / before) / 20;
    }
    INFO("gamma " << gamma << ": " << logs);
    CHECK((logs > 0) == grows);
  }
}

TEST_CASE("a drawn matching pairs all ranks, but for one of an odd number, anew in each round") {
  for (const int ranks : {1, 2, 5, 8, 33}) {
    int same = 0;
    for (uint64_t round = 0; round < 200; ++round) {
      int alone = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const int other = matched(rank, ranks, 9, round);
        REQUIRE(matched(other, ranks, 9, round) == rank);
        alone += other == rank;
      }
      CHECK(alone == ranks % 2);
      same += matched(0, ranks, 9, round) == matched(0, ranks, 9, round + 1);
    }
    if (ranks > 4) CHECK(same < 100);
  }
}
