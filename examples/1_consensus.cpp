// Consensus on a ring: no gradients; gossip has to find the mean of random points.
//
// The distance of all ranks to their mean, |pi x|, has to shrink by 1e-3. Plain pairwise averaging
// (AD-PSGD without gradients) needs some n^3 exchanges on a ring of n ranks; with the second copy
// x~ of A2CiD2 it needs n^2 (Nabli, Belilovsky, Oyallon, NeurIPS 2023). Both use that paper's
// process, a Poisson clock per edge, on the virtual clock. The numbers are means over 20 seeds.
//
// To build and run: ninja -C build/release 1_consensus && build/release/bin/1_consensus
// It prints:
//
//   ranks  ad_psgd  a2cid2
//       8      181     131
//      16     1251     497
#include "examples/example.hpp"

using namespace grapevine;

// The mean over 20 seeds.
double exchanges_needed(const std::string& method, int ranks) {
  constexpr int kSeeds = 20;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Settings settings;
    settings.clock = Clock::simulated;
    settings.method = method;
    settings.topology = "ring";
    settings.ranks = ranks;
    settings.pairing = Pairing::poisson;
    settings.objective.objective = "consensus";
    settings.objective.dim = 64;
    settings.seed = static_cast<uint64_t>(seed);
    settings.target = 1e-3;
    settings.sample_s = 0;
    const RunResult result = example::or_exit(run(settings));
    if (!result.reached_target) std::printf("seed %d did not get there\n", seed);
    sum += static_cast<double>(result.outcome.exchanges);
  }
  return sum / kSeeds;
}

int main() {
  std::printf("ranks  ad_psgd  a2cid2\n");
  for (const int ranks : {8, 16})
    std::printf("%5d  %7.0f  %6.0f\n", ranks, exchanges_needed("ad_psgd", ranks),
                exchanges_needed("a2cid2", ranks));
}
