// The published steps and bits of PowerGossip to a consensus of matrices (Vogels, Karimireddy,
// Jaggi, NeurIPS 2020, arXiv 2008.01425).
#include <vector>

#include "tests/algorithms/methods_problems.hpp"
#include "tests/algorithms/powergossip_tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// One matrix per rank on a ring of 8: Gaussian, with singular values that fall as k^-decay.
LockstepOptions consensus(const std::string& compress, double decay) {
  ObjectiveSpec spec;
  spec.ranks = 8;
  spec.spectrum_decay = decay;
  LockstepOptions options =
      powergossip_options(8, matrix_layout(100, 100), power(compress, kBestGamma));
  options.start = start_of(**make_matrix(spec), 8);
  return options;
}

}  // namespace

TEST_CASE("steps and bits to the consensus of matrices are the published ones to 2 %") {
  struct Target {
    double ratio, steps, megabits;  // steps 0: not published
  };
  const struct {
    const char* compress;
    double decay;
    std::vector<Target> targets;
  } rows[] = {{"powergossip", 0, {{1e-3, 946, 6.05}, {1e-6, 2228, 14.25}}},
              {"powergossip:start=cold", 0, {{1e-3, 1257, 8.04}, {1e-6, 2698, 17.26}}},
              {"powergossip:rank=2", 0, {{1e-3, 476, 6.08}, {1e-6, 1117, 14.29}}},
              {"powergossip:rank=4", 0, {{1e-3, 240, 6.12}, {1e-6, 559, 14.29}}},
              {"powergossip", 1, {{1e-3, 0, 4.21}, {1e-6, 0, 12.1}}},
              {"powergossip", 2, {{1e-3, 0, 1.51}, {1e-6, 0, 7.75}}}};
  for (const auto& row : rows) {
    Lockstep run(consensus(row.compress, row.decay));
    const double start = run.spread();
    const Lockstep::Row mean = run.mean();
    int steps = 0;
    for (const Target& target : row.targets) {
      for (; run.spread() > target.ratio * start && steps < 10000; ++steps)
        run.round(0);
      INFO(row.compress << ", decay " << row.decay << ", to " << target.ratio);
      REQUIRE(steps < 10000);
      if (target.steps > 0) CHECK(steps == Approx(target.steps).epsilon(0.02));
      const double numbers_per_rank = static_cast<double>(run.bytes()) / sizeof(double) / 8;
      CHECK(32e-6 * numbers_per_rank == Approx(target.megabits).epsilon(0.02));
    }
    CHECK(distance(run.mean(), mean) < 1e-13);
  }
}
