// Simulated runs for tests: many seeds of the real actors on the virtual clock, on all cores.
//
// A simulation is single-threaded and depends on its seed alone, so seeds may run side by side.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "actors/run/spawn_run.hpp"

namespace grapevine {

/// Pure gossip by the paper's own process on `topology`: no gradients, no latency.
Settings gossip(const std::string& topology, int ranks, const std::string& method = "a2cid2");

/// The protocol of free pairing, with the control latency its figures were taken at: 0.02 +- 50 %.
Settings free_gossip(const std::string& topology, int ranks, double transfer_s);

/// Noise of standard deviation 1 per coordinate instead of gradients, on all cores' worth of ranks.
Settings noisy(const std::string& topology, int ranks, const std::string& method, double momentum);

RunResult simulate_one(Settings, uint64_t seed, RunHooks hooks = {});

/// seeds 1..count; results by seed.
std::vector<RunResult> simulate_seeds(const Settings&, int count);

/// Calls work(seed) for seeds 1..count, on all cores.
void for_seeds(int count, const std::function<void(int seed)>& work);

struct Mean {
  double mean = 0, sd = 0;
};
Mean mean_of(const std::vector<double>& values);
Mean exchanges_of(const std::vector<RunResult>&);

/// Exchanges per rank and second.
double throughput(const RunResult&, const Settings&);

/// Of the heap, in the middle of a run of pure gossip on a ring of 64 numbers: what a rank costs
/// beside its x and x~, with its share of what all have in common: the graph, the clock's queue.
double bytes_per_rank(int ranks);

/// So many gradients of a noisy quadratic by ranks on a ring, with pacing greedy.
Settings at_work(int ranks, uint64_t gradients, const char* method, Share share);

LinkFault loss_of(FrameClass frames, double probability);
RankFault rank_fault(RankFaultKind kind, std::vector<int> ranks, double at = 0);

}  // namespace grapevine
