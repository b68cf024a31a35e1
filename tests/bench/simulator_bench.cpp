// The cost of the virtual clock: firings per second and bytes per rank, full protocol, rings of
// ranks that hold 64 numbers each. One core.
//
//   build/release/bin/simulator_bench
#include <cstdio>

#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

double firings_per_second(int ranks, double seconds) {
  Settings s = gossip("ring", ranks);
  s.target = 0;
  s.objective.dim = 64;
  s.until_s = seconds;
  double best = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed)
    best = std::max(best, simulate_one(s, seed).events_per_second);
  return best;
}

}  // namespace

int main() {
  std::printf("ranks   firings/s (best of 5)   bytes per rank beside x and x~\n");
  for (const auto& [ranks, seconds] : {std::pair{64, 500.0}, {1024, 30.0}, {16384, 4.0}}) {
    const double bytes = bytes_per_rank(ranks);  // first: from a heap that is hardly used
    std::printf("%6d  %.2f M  %22.0f\n", ranks, firings_per_second(ranks, seconds) / 1e6, bytes);
  }
}
