// Distributed mean estimation (Vogels et al., NeurIPS 2021, arXiv 2110.04175, appendix).
#include <cmath>

#include "tests/algorithms/methods_problems.hpp"
#include "tests/catch.hpp"
#include "topologies/trees.hpp"

namespace grapevine::test {

namespace {

using Row = Lockstep::Row;

struct Samples {  // of rank i that have reached a rank: the earliest max(rounds - delay, 0)
  Row sum;
  double count = 0;
};

LockstepOptions estimating(Objective& objective, int ranks, const std::string& tree) {
  LockstepOptions options;
  options.method = "mean_estimation";
  options.ranks = ranks;
  options.topology = tree;
  options.layout = objective.layout();
  options.gradient = gradient_of(objective);
  return options;
}

std::unique_ptr<Objective> samples_of(int ranks, int dim, double zeta2) {
  ObjectiveSpec spec;
  spec.ranks = ranks;
  spec.dim = dim;
  spec.zeta2 = zeta2;
  return *make_mean(spec);
}

/// All that has reached rank i along the tree after so many rounds.
Samples heard(Objective& objective, const Topology& tree, int i, int rounds) {
  const auto size = static_cast<Eigen::Index>(objective.layout().size());
  Samples all{Row::Zero(size)};
  const std::vector<int> hops = hops_from(tree, i);
  for (int j = 0; j < tree.ranks(); ++j) {
    const int late = std::max(hops[static_cast<size_t>(j)] - 1, 0);
    for (int t = 0; t < rounds - late; ++t, ++all.count)
      all.sum -= gradient_of(objective)(j, static_cast<uint64_t>(t), Row::Zero(size));
  }
  return all;
}

}  // namespace

TEST_CASE("mean estimation: an estimate is the plain mean of the samples that have come") {
  const auto objective = samples_of(16, 3, 1);
  for (const char* spec : {"chain", "relay-tree", "star"}) {
    Lockstep run(estimating(*objective, 16, spec));
    int done = 0;
    for (const int rounds : {1, 4, 50}) {
      run.rounds(rounds - std::exchange(done, rounds), 0);
      for (int i = 0; i < 16; ++i) {
        const Samples all = heard(*objective, run.topology(), i, rounds);
        CHECK((run.x(i) - all.sum / all.count).cwiseAbs().maxCoeff() < 1e-13);
      }
    }
  }
}

TEST_CASE("mean estimation: the mean squared error at 400 rounds is the published one") {
  struct Figure {
    const char* tree;
    double of_16, of_32, of_64;  // times ranks times rounds
  };
  for (const Figure& figure : {Figure{"chain", 1.01107, 1.02486, 1.05375},
                               {"relay-tree", 1.00584, 1.00955, 1.01383},
                               {"star", 1.00206, 1.00228, 1.00239}}) {
    for (const auto& [n, expected] :
         {std::pair{16, figure.of_16}, {32, figure.of_32}, {64, figure.of_64}}) {
      const auto objective = samples_of(n, 1, 0);
      Lockstep run(estimating(*objective, n, figure.tree));
      run.rounds(400, 0);
      double exact = 0;
      for (int i = 0; i < n; ++i) {
        const Samples all = heard(*objective, run.topology(), i, 400);
        CHECK(std::abs(run.x(i)(0) - all.sum(0) / all.count) < 1e-12);
        exact += 400 / all.count;
      }
      CHECK(exact == Approx(expected).epsilon(0).margin(5e-6));
    }
  }
}

TEST_CASE("mean estimation errs as its count says, over many coordinates") {
  const auto objective = samples_of(16, 4000, 0);
  Lockstep run(estimating(*objective, 16, "chain"));
  run.rounds(20, 0);
  for (const int i : {0, 7}) {
    const Row x = run.x(i);
    const double error = objective->evaluate(0, -1, {x.data(), 4000, DType::f64}).loss;
    CHECK(error * heard(*objective, run.topology(), i, 20).count == Approx(1).epsilon(0.1));
  }
}

TEST_CASE("mean estimation: lost samples and new trees leave no bias and nothing counted twice") {
  const auto objective = samples_of(16, 4000, 0);
  LockstepOptions options = estimating(*objective, 16, "relay-tree");
  options.rule.missing = Missing::own;
  options.lost = [](uint64_t round, int from, int) { return (round + from) % 5 == 0; };
  Lockstep run(options);
  run.rounds(10, 0);
  run.enter("double-binary-trees");
  run.rounds(30, 0);
  const Row x = run.x(5);
  const double error = objective->evaluate(0, -1, {x.data(), 4000, DType::f64}).loss;
  CHECK(error * 16 * 40 > 1);
  CHECK(error * 16 * 40 < 4);
  CHECK(run.bytes() == 8 * (10 * 2 * 15 * (4000 + 1) + 30 * 2 * 15 * (4000 + 2)));
}

}  // namespace grapevine::test
