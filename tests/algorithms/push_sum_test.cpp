// SGP, stochastic gradient push (Assran et al., ICML 2019, arXiv 1811.10792).
#include <array>
#include <cmath>
#include <functional>

#include "actors/algorithms/push_sum.hpp"
#include "kernels/base/random.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/methods_problems.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

using Row = Lockstep::Row;

Eigen::MatrixXd normal_matrix(Random& random, Eigen::Index rows, Eigen::Index columns) {
  Eigen::MatrixXd matrix(rows, columns);
  for (double& value : matrix.reshaped())
    value = random.normal();
  return matrix;
}

}  // namespace

TEST_CASE("SGP ends nearer to the optimum the smaller zeta^2 is, and nowhere else without it") {
  double error[2];
  for (const int k : {0, 1}) {
    const auto problem = quadratics(k == 0 ? 0.01 : 1);
    LockstepOptions options;
    options.method = "sgp";
    options.ranks = 16;
    options.layout = problem->layout();
    options.gradient = gradient_of(*problem);
    Lockstep run(options);
    run.rounds(3000, 0.05);
    error[k] = suboptimality(*problem, run);
  }
  CHECK(error[0] > 1e-10);
  CHECK(std::abs(error[1] / error[0] - 100) < 1e-3);
}

TEST_CASE("push-sum: a power of two averages exactly in log2 n messages, by the paper's schedule") {
  struct Case {
    int ranks, rounds;
    bool reference;
  };
  // The published code's schedule repeats hops: 16 ranks need 4 rounds of two messages, not 2.
  for (const Case& c :
       {Case{4, 1, false}, Case{16, 2, false}, Case{64, 3, false}, Case{16, 4, true}}) {
    Random random(1, 0, Purpose::test);
    LockstepOptions options;
    options.method = "sgp";
    options.ranks = c.ranks;
    options.start = normal_matrix(random, c.ranks, 1);
    options.rule.reference_schedule = c.reference;
    const Row mean = options.start.colwise().mean();
    Lockstep run(options);
    run.rounds(c.rounds - 1, 0.1);
    CHECK(run.farthest(mean) > 1e-3);
    run.round(0.1);
    CHECK(run.farthest(mean) < 1e-15);
  }
}

TEST_CASE("push-sum: the weights sum to n, whatever n and whatever is lost") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed, 0, Purpose::test);
    LockstepOptions options;
    options.method = "sgp";
    options.ranks = 2 + static_cast<int>(random.below(40));
    options.start = normal_matrix(random, options.ranks, 1);
    options.rule.missing = Missing::own;
    options.lost = [&](uint64_t, int, int) { return seed % 2 == 1 && random.uniform() < 0.3; };
    Lockstep run(options);
    run.rounds(1 + static_cast<int>(random.below(5)), 0.1);
    double mass = 0;
    for (int rank = 0; rank < options.ranks; ++rank)
      mass += run.rule(rank).counts().push_weight;
    REQUIRE(std::abs(mass - options.ranks) < 1e-12);
  }
}

TEST_CASE("push-sum: whoever sends to whom, all ranks reach the mean, though weights differ") {
  constexpr int kRanks = 7;
  Random random(3, 0, Purpose::test);
  const ParameterLayout layout = ParameterLayout::flat(1, DType::f64);
  const Eigen::MatrixXd start = normal_matrix(random, kRanks, 1);
  std::vector<std::unique_ptr<PushSum>> ranks;
  for (int i = 0; i < kRanks; ++i) {
    const double x = start(i, 0);
    ranks.push_back(
        std::make_unique<PushSum>(RuleContext{i, 1, layout, {}, {}, {&x, 1, DType::f64}}));
    Neighbourhood near;
    near.ranks = kRanks;
    ranks.back()->enter(near);
  }
  SnapshotPool pool(2 * sizeof(double), DType::bytes, 64);
  double most = 1;
  for (int phase = 0; phase < 400; ++phase) {
    std::vector<std::vector<Received>> in(kRanks);
    for (auto& rank : ranks) {
      Payload payload{pool.take()};
      rank->write(phase % 2, 0, payload);
      in[random.below(kRanks)].push_back({payload});
    }
    double mass = 0;
    for (size_t i = 0; i < kRanks; ++i) {
      ranks[i]->combine(0, phase % 2, in[i]);
      mass += ranks[i]->counts().push_weight;
      most = std::max(most, ranks[i]->counts().push_weight);
    }
    REQUIRE(std::abs(mass - kRanks) < 1e-12);
  }
  CHECK(most > 2);
  for (auto& rank : ranks) {
    double z = 0;
    rank->read(0, {&z, 1, DType::f64});
    CHECK(std::abs(z - start.mean()) < 1e-12);
  }
}

TEST_CASE("push-sum sends single precision as such") {
  const ParameterLayout layout = ParameterLayout::flat(3, DType::f32);
  const float a[] = {1, 2, 3}, b[] = {5, 6, 7}, g[] = {2, 2, 2};
  PushSum one({0, 1, layout, {}, {}, {a, 3, DType::f32}});
  PushSum two({1, 1, layout, {}, {}, {b, 3, DType::f32}});
  Neighbourhood near;
  near.ranks = 2;
  one.enter(near), two.enter(near);
  one.on_gradient(0, 0.5, {g, 3, DType::f32}, {});
  SnapshotPool pool(one.message_bytes(), DType::bytes, 2);
  std::vector<Received> from_one{{{pool.take()}}}, from_two{{{pool.take()}}};
  one.write(0, 0, from_one[0].payload);
  two.write(0, 0, from_two[0].payload);
  CHECK(from_one[0].payload.count == 4);
  CHECK(from_one[0].payload.vec().as<float>()[3] == 0.5f);
  one.combine(0, 0, from_two);
  two.combine(0, 0, from_one);
  for (PushSum* rank : {&one, &two}) {
    float x[3];
    rank->read(0, {x, 3, DType::f32});
    CHECK(x[0] == 2.5f);
    CHECK(x[2] == 4.5f);
    CHECK(rank->counts().push_weight == 1);
  }
}
