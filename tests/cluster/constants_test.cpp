// Constants of whole nodes: what their consoles say of them.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/cluster/simulated_cluster.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr int kNodes = 3, kRanksHere = 2;

Settings settings_of(double gradient_s) {
  Settings s;
  s.clock = Clock::simulated;
  s.topology = "ring";
  s.ranks = kNodes * kRanksHere;
  s.local_ranks = kRanksHere;
  s.gradients = 0;
  s.gradient_s = gradient_s;
  s.lr = {0.01, Schedule::constant, 0};
  s.link.latency_s = 2e-3;  // of the network: an offer is made again after a round trip or so
  return s;
}

void ask_all(SimulatedCluster& cluster) {
  for (int p = 0; p < kNodes; ++p)
    cluster.ask(p, ConsoleVerb::status);
  cluster.run(cluster.now() + 0.2);
}

}  // namespace

TEST_CASE("nodes of unlike speed come to one set of constants, and their consoles show it") {
  SimulatedCluster cluster({}, 7);
  const double speeds[kNodes] = {0.01, 0.02, 0.04};
  for (int p = 0; p < kNodes; ++p)
    cluster.start(p, settings_of(speeds[p]), p * kRanksHere, kNodes * kRanksHere,
                  p == 0 ? std::vector<int>{} : std::vector{0});
  cluster.run(14);
  ask_all(cluster);
  double least = 1e300, most = 0, least_tilde = 1e300, most_tilde = 0;
  for (int p = 0; p < kNodes; ++p) {
    const NodeStatus& s = cluster.at(p).status;
    INFO(s.node << ": eta " << s.epoch.eta);
    REQUIRE(s.epoch.ranks == kNodes * kRanksHere);
    CHECK(s.epoch.solved_at_s > s.epoch.at_s);  // not those of the epoch's beginning
    least = std::min(least, s.epoch.eta);
    most = std::max(most, s.epoch.eta);
    least_tilde = std::min(least_tilde, s.epoch.alpha_tilde);
    most_tilde = std::max(most_tilde, s.epoch.alpha_tilde);
  }
  CHECK(most < 1.1 * least);
  CHECK(most_tilde < 1.1 * least_tilde);
}
