// What the virtual clock costs: firings per second and bytes per rank, full protocol, rings of
// ranks that hold 64 numbers each. One core.
//
//   build/release/bin/simulator_bench
#include <malloc.h>

#include <cstdio>

#include "tests/simulated_runs.hpp"

using namespace grapevine;

namespace {

struct Cost {
  double firings_per_second = 0, bytes_per_rank = 0;
};

Cost measure(int ranks, double seconds) {
  Settings s = gossip("ring", ranks);
  s.target = 0;
  s.objective.dim = 64;
  s.until_s = seconds;
  s.sample_s = 0.9 * seconds;  // the heap is weighed in mid-run
  Cost cost;
  malloc_trim(0);
  const size_t before = mallinfo2().uordblks;
  RunHooks hooks;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (sample.at_s == 0) return;
    const Buffer x(64, DType::f64);  // as a rank's x and x~ are allocated
    const double vectors =
        2.0 * static_cast<double>(malloc_usable_size(const_cast<void*>(x.vec().data)));
    const size_t now = mallinfo2().uordblks;
    cost.bytes_per_rank = static_cast<double>(now - before) / ranks - vectors;
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RunResult r = simulate_one(s, seed, seed == 1 ? hooks : RunHooks{});
    cost.firings_per_second = std::max(cost.firings_per_second, r.events_per_second);
  }
  return cost;
}

}  // namespace

int main() {
  std::printf("ranks   firings/s (best of 5)   bytes per rank beside x and x~\n");
  for (const auto& [ranks, seconds] : {std::pair{64, 500.0}, {1024, 30.0}, {16384, 4.0}}) {
    const Cost cost = measure(ranks, seconds);
    std::printf("%6d  %.2f M  %22.0f\n", ranks, cost.firings_per_second / 1e6, cost.bytes_per_rank);
  }
}
