// Means of whole nodes on the virtual clock: at the end and of snapshots, through whoever is
// linked, and with the names of those who are missing.
#include <algorithm>
#include <set>

#include "tests/catch.hpp"
#include "tests/cluster/simulated_cluster.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr int kNodes = 4;

Settings settings_of(int nodes) {
  Settings s;
  s.clock = Clock::simulated;
  s.ranks = 2 * nodes;
  s.local_ranks = 2;
  s.method = "a2cid2";
  s.topology = "ring";
  s.gradient_s = 0.1;
  s.gradients = 0;
  s.lr = {0.01, Schedule::constant, 0};
  s.rule = with_optimizer({});
  s.sample_s = 0;
  s.link.latency_s = 0.01;
  return s;
}

void start(SimulatedCluster& cluster, int nodes) {
  for (int h = 0; h < nodes; ++h)
    cluster.start(h, settings_of(nodes), 2 * h, 2 * nodes,
                  h == 0 ? std::vector<int>{} : std::vector<int>{0});
  cluster.run(5);
}

void cut(SimulatedCluster& cluster, int a, int b) {
  cluster.network().cut(a, b);
  cluster.network().cut(b, a);
}

// That these have ended with one mean of so many ranks.
void check_one_mean(SimulatedCluster& cluster, const std::vector<int>& who, int ranks,
                    const std::vector<std::string>& missing = {}) {
  std::set<uint64_t> hashes;
  for (const int p : who) {
    INFO(cluster.at(p).name);
    REQUIRE(cluster.at(p).ending);
    const ClusterEnding& end = *cluster.at(p).ending;
    CHECK(end.missing == missing);
    REQUIRE(end.mean);
    CHECK(end.mean->ranks == ranks);
    hashes.insert(end.mean->hash);
  }
  CHECK(hashes.size() == 1);
}

}  // namespace

TEST_CASE("a stop at one node ends all of them, with one mean of all ranks") {
  SimulatedCluster cluster({}, 1);
  start(cluster, kNodes);
  cluster.ask(2, ConsoleVerb::stop);
  cluster.run(cluster.now() + 10);
  check_one_mean(cluster, {0, 1, 2, 3}, 2 * kNodes);
}

TEST_CASE("with any one of six pairs cut all nodes hear of a stop and have one mean") {
  for (int a = 0; a < kNodes; ++a) {
    for (int b = a + 1; b < kNodes; ++b) {
      SimulatedCluster cluster({}, 1);
      start(cluster, kNodes);
      cut(cluster, a, b);
      cluster.run(12);
      cluster.ask(a, ConsoleVerb::stop);
      cluster.run(cluster.now() + 40);
      INFO("between " << a << " and " << b);
      check_one_mean(cluster, {0, 1, 2, 3}, 2 * kNodes);
    }
  }
}

TEST_CASE("a node that dies while the run ends is missing by name, at all that are left") {
  SimulatedCluster cluster({}, 1);
  start(cluster, kNodes);
  cluster.stop(3);
  cluster.ask(0, ConsoleVerb::stop);
  cluster.run(cluster.now() + 60);
  check_one_mean(cluster, {0, 1, 2}, 2 * (kNodes - 1), {cluster.at(3).name});
}

TEST_CASE("snapshots that are asked for at once share a mean, and training goes on") {
  SimulatedCluster cluster({}, 1);
  start(cluster, kNodes);
  for (const int p : {0, 1, 1, 3})
    cluster.ask(p, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 3);
  CHECK(cluster.answers() == std::vector<std::string>(4, "8"));
  cluster.ask(1, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 3);
  CHECK(cluster.answers().size() == 5);
  for (int p = 0; p < kNodes; ++p)
    CHECK(cluster.running(p));
}

TEST_CASE("a snapshot is of those that live: who has been killed is not waited for") {
  SimulatedCluster cluster({}, 1);
  start(cluster, kNodes);
  cluster.kill(0);
  cluster.run(cluster.now() + 1);
  cluster.ask(2, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 10);
  CHECK(cluster.answers() == std::vector<std::string>(1, "6"));
}

TEST_CASE("a node that joins after a snapshot does not wait for it") {
  SimulatedCluster cluster({}, 1);
  start(cluster, kNodes);
  cluster.ask(1, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 3);
  Settings late = settings_of(kNodes);
  const int p = cluster.start(kNodes, late, -1, 0, {0});
  cluster.run(cluster.now() + 10);
  cluster.ask(p, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 6);
  CHECK(cluster.answers() == std::vector<std::string>{"8", "10"});
}
