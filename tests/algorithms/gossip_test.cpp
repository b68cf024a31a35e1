// Methods that gossip by a matrix: the scalar problem to the digit, what gossip keeps, what a
// message costs. Nothing is lost here, nothing is compressed. Figures: the published
// code of Vogels et al., NeurIPS 2021, arXiv 2110.04175.
#include <cmath>
#include <limits>

#include "kernels/base/random.hpp"
#include "tests/algorithms/methods_problems.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

using Row = Lockstep::Row;

constexpr double kOptimum = 0.18;  // of the scalar problem
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// 16 ranks on a ring, f_i(x) = 1/2 a_i (x - b_i)^2.
Lockstep scalar_problem(const std::string& method, const std::string& weights,
                        const OptimizerSettings& optimizer = {},
                        const std::string& topology = "ring") {
  static const auto problem = [] {
    ObjectiveSpec spec;
    spec.ranks = 16;
    return *make_scalar(spec);
  }();
  LockstepOptions options;
  options.method = method;
  options.ranks = 16;
  options.topology = topology;
  options.weights = weights;
  options.rule.optimizer = optimizer;
  options.gradient = gradient_of(*problem);
  return Lockstep(std::move(options));
}

double off(const Lockstep& run) { return run.mean()(0) - kOptimum; }
double farthest(const Lockstep& run) { return run.farthest(Row::Constant(1, kOptimum)); }

LockstepOptions on(Objective& objective, const std::string& method) {
  LockstepOptions options;
  options.method = method;
  options.ranks = 16;
  options.layout = objective.layout();
  options.gradient = gradient_of(objective);
  if (method != "d_psgd") options.weights = kBelowThird;
  return options;
}

Eigen::MatrixXd normal_matrix(Random& random, Eigen::Index rows, Eigen::Index columns) {
  Eigen::MatrixXd matrix(rows, columns);
  for (double& value : matrix.reshaped())
    value = random.normal();
  return matrix;
}

}  // namespace

TEST_CASE("gossip methods: the scalar problem is where the published figures have it") {
  struct Figure {
    const char *method, *weights, *topology;
    double after[4];  // 1, 10, 200 and 1000 rounds: mean - optimum
    double farthest;  // at the end
  };
  const Figure figures[] = {
      {"d_psgd",  // on a complete graph: all-reduce
       "metropolis",
       "complete",
       {-1.6875e-1, -9.440288550877e-2, -4.461981703563e-7, 0},
       0},
      {"d_psgd",
       "metropolis",
       "ring",
       {-1.6875e-1, -9.280467374662e-2, -1.543308301248e-2, -1.543222880293e-2},
       1.004974038517},
      {"d2", kBelowThird, "ring", {-1.6875e-1, -9.983156203698e-2, -1.871621105043e-7, 0}, 0},
      {"gradient_tracking",
       kBelowThird,
       "ring",
       {-1.6875e-1, -9.724554186944e-2, -1.509810044145e-3, 8.330791e-10},
       kNaN},
  };
  for (const Figure& figure : figures) {
    Lockstep run = scalar_problem(figure.method, figure.weights, {}, figure.topology);
    int done = 0, k = 0;
    for (const int rounds : {1, 10, 200, 1000}) {
      run.rounds(rounds - std::exchange(done, rounds), 0.1);
      INFO(figure.method << " on " << figure.topology << ", round " << rounds);
      CHECK(std::abs(off(run) - figure.after[k++]) < (rounds == 1000 ? 1e-13 : 1e-10));
    }
    if (!std::isnan(figure.farthest)) CHECK(std::abs(farthest(run) - figure.farthest) < 1e-10);
  }
}

TEST_CASE("gossip methods with momentum are where the published figures have them") {
  struct Figure {
    const char *method, *weights;
    double after_50, after_400, tolerance_400;
  };
  const Figure figures[] = {
      {"d_psgd", "metropolis", -6.774495270185e-3, -3.987679562311e-3, 1e-10},
      {"qgm", "metropolis", 2.154129229299e-2, -1.390010077187e-2, 1e-10},
      {"d2", kBelowThird, 1.816564773228e-3, 4.4e-10, 1e-11},
      {"gradient_tracking", kBelowThird, -4.130757501589e-2, -3.950785105778e-4, 1e-10},
  };
  for (const Figure& figure : figures) {
    Lockstep run =
        scalar_problem(figure.method, figure.weights, {.momentum = 0.9, .nesterov = true});
    INFO(figure.method);
    run.rounds(50, 0.02);
    CHECK(std::abs(off(run) - figure.after_50) < 1e-10);
    if (figure.method == std::string("d_psgd"))
      CHECK(std::abs(farthest(run) - 1.504005637996) < 1e-10);
    run.rounds(350, 0.02);
    CHECK(std::abs(off(run) - figure.after_400) < figure.tolerance_400);
  }
}

TEST_CASE("D-PSGD ends beside the optimum, nearer with smaller steps") {
  struct Figure {
    double lr, off, farthest;
    int rounds;
  };
  for (const Figure& figure : {Figure{0.05, -1.546592122879e-2, 0.6180408526737, 2000},
                               Figure{0.01, -5.460376011808e-3, 0.1557496698541, 7000}}) {
    Lockstep run = scalar_problem("d_psgd", "metropolis");
    run.rounds(figure.rounds, figure.lr);
    CHECK(std::abs(off(run) - figure.off) < 1e-10);
    CHECK(std::abs(farthest(run) - figure.farthest) < 1e-10);
  }
}

TEST_CASE("D-PSGD's error is exactly proportional to zeta^2; D2 and gradient tracking have none") {
  double error[2];
  for (const int k : {0, 1}) {
    const auto problem = quadratics(k == 0 ? 0.1 : 10);
    Lockstep run(on(*problem, "d_psgd"));
    run.rounds(1500, 0.1);
    error[k] = suboptimality(*problem, run);
  }
  CHECK(error[0] > 1e-5);
  CHECK(std::abs(error[1] / error[0] - 100) < 1e-6);
  const auto problem = quadratics(10);
  Lockstep d2(on(*problem, "d2")), tracking(on(*problem, "gradient_tracking"));
  d2.rounds(1500, 0.1);
  tracking.rounds(6000, 0.05);
  CHECK(suboptimality(*problem, d2) < 1e-26);
  CHECK(suboptimality(*problem, tracking) < 1e-26);
}

TEST_CASE("steps alone move the mean, on any graph") {
  for (const char* method : {"d_psgd", "d2", "gradient_tracking", "qgm"}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Random random(seed, 0, Purpose::test);
      LockstepOptions options;
      options.method = method;
      options.ranks = 8;
      options.topology = "erdos-renyi:0.4:" + std::to_string(seed);
      options.layout = ParameterLayout::flat(3, DType::f64);
      options.start = normal_matrix(random, 8, 3);
      options.rule.gamma = random.uniform(0.1, 1);
      const Eigen::MatrixXd g = normal_matrix(random, 8, 3);
      options.gradient = [&](int rank, uint64_t, const Row&) { return Row(g.row(rank)); };
      const Row expected = options.start.colwise().mean() - 6 * 0.1 * g.colwise().mean();
      Lockstep run(options);
      run.rounds(6, 0.1);
      INFO(method << ", seed " << seed);
      REQUIRE((run.mean() - expected).cwiseAbs().maxCoeff() < 1e-14);
    }
  }
}

TEST_CASE("D2 and gradient tracking find the optimum though the graph changes on the way") {
  const auto problem = quadratics(1);
  for (const char* method : {"d2", "gradient_tracking"}) {
    Lockstep run(on(*problem, method));
    run.rounds(20, 0.05);
    run.enter("random-regular:4:1", "lazy");
    run.rounds(20, 0.05);
    run.enter("complete", "lazy");
    run.rounds(3000, 0.05);
    CHECK(suboptimality(*problem, run) < 1e-18);  // from 61; D2 adds up what rounding leaves in c
  }
}

TEST_CASE("a round costs what the method's header says") {
  struct Cost {
    const char* method;
    uint64_t messages, numbers;  // of a rank with 4 neighbours and 14 parameters
  };
  for (const Cost& cost : {Cost{"d_psgd", 4, 14}, Cost{"d2", 4, 14}, Cost{"qgm", 4, 14},
                           Cost{"gradient_tracking", 4, 28}, Cost{"sgp", 2, 15}}) {
    LockstepOptions options;
    options.method = cost.method;
    options.ranks = 9;
    options.topology = "torus";
    options.layout = ParameterLayout::flat(14, DType::f64);
    Lockstep run(options);
    run.rounds(3, 0.1);
    INFO(cost.method);
    CHECK(run.messages() == 3 * 9 * cost.messages);
    CHECK(run.bytes() == run.messages() * cost.numbers * 8);
    CHECK(run.rule(0).message_bytes() == cost.numbers * 8);
  }
}
