// reproduce quadratics: rounds until f(mean) - minimum is below 1e-6 on random quadratics, at the
// fastest learning rate.
//
// 10 dimensions, mu = 0.5, zeta^2 = 1, the optimum 100 away. The expected figures are the mean of
// 10 draws in the notebook of figure 2 that Vogels et al. published (NeurIPS 2021, arXiv
// 2110.04175). First the oracle with their tuner is compared with these figures, then the actors,
// at the oracle's learning rates, with the oracle.
#include "app/reproduce/oracle.hpp"

#include <fmt/core.h>
#include "app/reproduce/runs.hpp"

namespace grapevine {
namespace {

constexpr double kTarget = 1e-6;
constexpr double kFirstRate = 10;
constexpr uint64_t kMostRounds = 20000;
constexpr uint64_t kQuadraticsSeeds = 10;
constexpr int kQuadraticsRanks[] = {6, 12, 24, 48};

struct Column {
  const char* what;
  const char *method, *topology, *weights;
  double published[4];  // by ranks
};

constexpr const char* kBelowThird = "uniform:0.32333333333333333";  // 1/3 - .01

constexpr Column kColumns[] = {
    {"RelaySGD chain", "relaysgd", "chain", "metropolis", {20.8, 38.1, 70.1, 127.6}},
    {"RelaySGD tree", "relaysgd", "relay-tree", "metropolis", {15.2, 20.9, 26.8, 32.8}},
    {"D2 ring", "d2", "ring", kBelowThird, {19.6, 43.1, 79.3, 179.6}},
    {"gradient tracking ring", "gradient_tracking", "ring", kBelowThird, {49.0, 199, 700, 2539}},
    {"gradient tracking tree",
     "gradient_tracking",
     "relay-tree",
     "metropolis",
     {156, 406, 883, 1751}},
    {"all-reduce", "all_reduce", "ring", "metropolis", {8.9, 7.5, 6.8, 6.2}},
};

struct Rounds {
  double oracle = 0, actors = 0;
};

std::string words_of(const Column& column, int ranks) {
  return fmt::format(
      "objective=quadratic dim=10 mu=0.5 zeta2=1 r0=100 relay-lr=false normalisation={} method={} "
      "topology={} weights={} ranks={}",
      column.method == std::string("relaysgd") ? "x0" : "counts", column.method, column.topology,
      column.weights, ranks);
}

/// The first tested round after which the actors are below the target; one more than all if none
/// is.
double rounds_of(const Summary& summary, uint64_t all) {
  for (const uint64_t round : test_rounds(kMostRounds, 1000)) {
    if (round > summary.curve.size()) break;
    if (summary.curve[round - 1].suboptimality < kTarget) return static_cast<double>(round);
  }
  return static_cast<double>(all + 1);
}

Result<Rounds> measure(const Column& column, int ranks, uint64_t seed, const Effort& effort) {
  ObjectiveSpec spec;
  spec.objective = "quadratic";
  spec.ranks = ranks;
  spec.seed = seed;
  spec.dim = 10;
  spec.mu = 0.5;
  spec.zeta2 = 1;
  spec.r0 = 100;
  const auto problem = make_objective(spec);
  const auto graph = make_topology(column.topology, ranks, 1);
  if (!problem) return problem.error();
  if (!graph) return graph.error();
  const auto matrix = gossip_matrix(column.weights, *graph);
  if (!matrix) return matrix.error();
  Oracle oracle(**problem, column.method, *graph, *matrix);
  const Tuned tuned = tune_fastest(oracle, kTarget, kFirstRate, kMostRounds);
  Run run;
  run.words = words_of(column, ranks);
  run.seed = seed;
  run.rounds = effort.rounds(tuned.rounds + tuned.rounds / 10 + 2);
  run.sampled = true;
  run.adjust = [&](Settings& s) { s.lr.peak = tuned.lr; };
  const auto summary = perform(run);
  if (!summary) return summary.error();
  return Rounds{static_cast<double>(tuned.rounds), rounds_of(*summary, run.rounds)};
}

}  // namespace

Result<Claims> reproduce_quadratics(const Effort& effort) {
  constexpr size_t kSizes = std::size(kQuadraticsRanks), kCells = std::size(kColumns) * kSizes;
  const uint64_t seeds = effort.seeds_or(kQuadraticsSeeds);
  std::vector<Rounds> rounds(kCells * seeds);
  const Status done = for_all(rounds.size(), effort, [&](size_t k) -> Status {
    const size_t cell = kCells - 1 - k / seeds;  // the largest graphs come first
    const auto measured = measure(kColumns[cell / kSizes], kQuadraticsRanks[cell % kSizes],
                                  effort.seed + k % seeds, effort);
    if (!measured) return measured.error();
    rounds[cell * seeds + k % seeds] = *measured;
    return Done{};
  });
  if (!done) return done.error();
  Claims claims;
  for (size_t cell = 0; cell < kCells; ++cell) {
    Rounds mean;
    for (uint64_t k = 0; k < seeds; ++k) {
      mean.oracle += rounds[cell * seeds + k].oracle / static_cast<double>(seeds);
      mean.actors += rounds[cell * seeds + k].actors / static_cast<double>(seeds);
    }
    const Column& column = kColumns[cell / kSizes];
    const std::string what = fmt::format("{} of {}", column.what, kQuadraticsRanks[cell % kSizes]);
    claims.push_back({what + ", oracle", column.published[cell % kSizes], mean.oracle, 0.15});
    claims.push_back({what + ", actors", mean.oracle, mean.actors, 0.05});
  }
  return claims;
}

}  // namespace grapevine
