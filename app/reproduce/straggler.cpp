// reproduce straggler: one of 16 ranks computes three times slower. Asynchronous RelaySGD is not
// affected: no rank waits, and different data on the ranks cause no bias.
//
// Random quadratics of 10 dimensions, zeta^2 = 1, on the ring's spanning tree, which is a chain
// with the slow rank at any place. It is compared with RelaySGD as published (Vogels et al.,
// NeurIPS 2021, arXiv 2110.04175), which waits.
#include <algorithm>

#include "app/reproduce/runs.hpp"

namespace grapevine {
namespace {

constexpr int kSlow = 5;
constexpr double kStragglerFactor = 3;
constexpr uint64_t kStragglerRounds = 4000;
constexpr double kIdle = 0.02, kStragglerExact = 1e-20;

struct Found {
  double idle = 0;  // the largest of the other ranks
  double suboptimality = 0;
};

Result<Found> measure(const std::string& method, const Effort& effort) {
  Run run;
  run.words =
      "objective=quadratic ranks=16 dim=10 zeta2=1 mu=0.5 r0=10 lr=0.1 relay-lr=false "
      "topology=spanning:ring method=" +
      method;
  run.seed = effort.seed;
  run.rounds = effort.rounds(kStragglerRounds);
  run.adjust = [](Settings& s) {
    RankFault fault;
    fault.ranks = {kSlow};
    fault.factor = kStragglerFactor;
    s.plan.rank_faults.push_back(fault);
  };
  std::shared_ptr<RoundMeans> by_round;
  const auto summary = perform(run, &by_round);
  if (!summary) return summary.error();
  Found found;
  for (size_t rank = 0; rank < summary->ranks.size(); ++rank)
    if (rank != kSlow) found.idle = std::max(found.idle, summary->ranks[rank].idle_fraction);
  found.suboptimality = by_round->suboptimality(run.rounds - 1);
  return found;
}

}  // namespace

Result<Claims> reproduce_straggler(const Effort& effort) {
  const auto free = measure("relaysgd_async", effort);
  if (!free) return free.error();
  const auto bound = measure("relaysgd", effort);
  if (!bound) return bound.error();
  return Claims{
      {"asynchronous: idle time of the others, the most", kIdle, free->idle, 0, Accept::at_most},
      {"asynchronous: f(mean) - minimum", kStragglerExact, free->suboptimality, 0, Accept::at_most},
      {"synchronous: idle time of the others, the most", 1 - 1 / kStragglerFactor, bound->idle,
       0.01, Accept::absolute},
      {"synchronous: f(mean) - minimum", kStragglerExact, bound->suboptimality, 0,
       Accept::at_most}};
}

}  // namespace grapevine
