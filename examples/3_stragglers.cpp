// A straggler: rank 5 of 16 computes three times slower. The example shows which ranks wait for it.
//
// With gossip, no rank waits: an exchange needs two ranks and no gradient, so the slow rank costs
// only its own gradients. With all_reduce, every step ends when the slowest rank has finished: the
// others idle two thirds of the time. A plan sets the slow rank; the same plan works with the wall
// clock. Here the greedy workers compute one gradient per (virtual) second.
//
// To build and run: ninja -C build/release 3_stragglers && build/release/bin/3_stragglers
// It prints:
//
//               gradients         idle time
//   method      slow rank others  slow rank  others (the least, the most idle)
//   a2cid2            100    300       0.0 %    0.0 %
//   ad_psgd           100    300       0.0 %    0.0 %
//   all_reduce         99    100       0.5 %   66.7 %
#include <algorithm>

#include "examples/example.hpp"

using namespace grapevine;

constexpr int kSlow = 5;

void show(const char* method) {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.method = method;
  settings.topology = "ring";
  settings.ranks = 16;
  settings.objective.objective = "quadratic";
  settings.gradients = 0;  // only the time ends the run
  settings.until_s = 300.5;
  settings.link.latency_s = 0.001;
  RankFault slow;
  slow.kind = RankFaultKind::slow;
  slow.ranks = {kSlow};
  slow.factor = 3;
  settings.plan.rank_faults = {slow};
  const Outcome outcome = example::or_exit(run(settings)).outcome;

  uint64_t least = ~uint64_t{0};
  double idlest = 0, slow_idle = 0;
  for (const WorkerReport& w : outcome.workers) {
    const double idle = w.idle_s / w.alive_s;
    if (w.rank == kSlow) {
      slow_idle = idle;
    } else {
      least = std::min(least, w.gradients);
      idlest = std::max(idlest, idle);
    }
  }
  std::printf("%-10s  %9lu %6lu  %8.1f %% %6.1f %%\n", method, outcome.workers[kSlow].gradients,
              least, 100 * slow_idle, 100 * idlest);
}

int main() {
  std::printf(
      "            gradients         idle time\n"
      "method      slow rank others  slow rank  others (the least, the most idle)\n");
  for (const char* method : {"a2cid2", "ad_psgd", "all_reduce"})
    show(method);
}
