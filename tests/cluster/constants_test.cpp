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

struct Constants {
  double least_eta = 1e300, most_eta = 0, least_tilde = 1e300, most_tilde = 0;
};

/// The constants in use, according to the consoles of the first `nodes`.
Constants constants_of(SimulatedCluster& cluster, int nodes) {
  for (int p = 0; p < nodes; ++p) {
    cluster.at(p).status_at_s = -1;
    cluster.ask(p, ConsoleVerb::status);
  }
  cluster.run(cluster.now() + 0.2);
  Constants c;
  for (int p = 0; p < nodes; ++p) {
    REQUIRE(cluster.at(p).status_at_s >= 0);
    const NodeStatus& s = cluster.at(p).status;
    INFO(s.node << ": eta " << s.epoch.eta);
    CHECK(s.epoch.ranks == nodes * kRanksHere);
    CHECK(s.epoch.solved_at_s > s.epoch.at_s);  // not those of the epoch's beginning
    CHECK(s.epoch.solved_at_s <= cluster.at(p).status_at_s);
    CHECK_FALSE(s.rates.empty());
    for (const EdgeRate& r : s.rates)  // of ranks that have left there are none
      CHECK(std::max(r.i, r.j) < static_cast<uint32_t>(nodes * kRanksHere));
    c.least_eta = std::min(c.least_eta, s.epoch.eta);
    c.most_eta = std::max(c.most_eta, s.epoch.eta);
    c.least_tilde = std::min(c.least_tilde, s.epoch.alpha_tilde);
    c.most_tilde = std::max(c.most_tilde, s.epoch.alpha_tilde);
  }
  return c;
}

void check_alike(const Constants& c) {
  INFO(c.least_eta << " to " << c.most_eta << ", " << c.least_tilde << " to " << c.most_tilde);
  CHECK(c.least_eta > 0);
  CHECK(c.most_eta < 1.1 * c.least_eta);
  CHECK(c.most_tilde < 1.1 * c.least_tilde);
}

}  // namespace

TEST_CASE("nodes of unlike speed come to one set of constants, and their consoles show it") {
  for (const uint64_t seed : {7, 8, 9}) {
    SimulatedCluster cluster({}, seed);
    const double speeds[kNodes] = {0.01, 0.02, 0.04};
    for (int p = 0; p < kNodes; ++p)
      cluster.start(p, settings_of(speeds[p]), p * kRanksHere, kNodes * kRanksHere,
                    p == 0 ? std::vector<int>{} : std::vector{0});
    for (const double at_s : {5.0, 9.0, 14.0}) {
      cluster.run(at_s);
      INFO("seed " << seed << " at " << at_s << " s");
      check_alike(constants_of(cluster, kNodes));
    }
    cluster.leave(kNodes - 1);
    cluster.run(cluster.now() + 8);
    INFO("seed " << seed << ", one has left");
    check_alike(constants_of(cluster, kNodes - 1));
  }
}
