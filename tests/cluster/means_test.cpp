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

void start(SimulatedCluster& cluster) {
  found(cluster, kNodes, endless("a2cid2", "ring", 2 * kNodes, 2));
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
  start(cluster);
  cluster.ask(2, ConsoleVerb::stop);
  cluster.run(cluster.now() + 10);
  check_one_mean(cluster, {0, 1, 2, 3}, 2 * kNodes);
}

TEST_CASE("with any one of six pairs cut all nodes hear of a stop and have one mean") {
  for (int a = 0; a < kNodes; ++a) {
    for (int b = a + 1; b < kNodes; ++b) {
      SimulatedCluster cluster({}, 1);
      start(cluster);
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
  start(cluster);
  cluster.stop(3);
  cluster.ask(0, ConsoleVerb::stop);
  cluster.run(cluster.now() + 60);
  check_one_mean(cluster, {0, 1, 2}, 2 * (kNodes - 1), {cluster.at(3).name});
}

TEST_CASE("snapshots that are asked for at once share a mean, and training goes on") {
  SimulatedCluster cluster({}, 1);
  start(cluster);
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
  start(cluster);
  cluster.kill(0);
  cluster.run(cluster.now() + 1);
  cluster.ask(2, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 10);
  CHECK(cluster.answers() == std::vector<std::string>(1, "6"));
}

TEST_CASE("a node that joins after a snapshot does not wait for it") {
  SimulatedCluster cluster({}, 1);
  start(cluster);
  cluster.ask(1, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 3);
  const int p = cluster.start(kNodes, endless("a2cid2", "ring", 2 * kNodes, 2), -1, 0, {0});
  cluster.run(cluster.now() + 10);
  cluster.ask(p, ConsoleVerb::snapshot);
  cluster.run(cluster.now() + 6);
  CHECK(cluster.answers() == std::vector<std::string>{"8", "10"});
}

TEST_CASE("what a member may not send is refused, and its console says how often and why") {
  SimulatedCluster cluster({}, 1);
  start(cluster);
  cluster.at(1).links->send(cluster.at(0).name, MeanAsk{MeanPiece::Way::up, false, 1, 0, 1000});
  cluster.run(cluster.now() + 1);
  cluster.ask(0, ConsoleVerb::status);
  cluster.run(cluster.now() + 1);
  const std::map<std::string, uint64_t> counted{{"a request for pieces that do not exist", 1}};
  CHECK(cluster.at(0).status.refused_pieces == counted);
}

TEST_CASE("the statistics of a mean are the mean of the ranks', at all nodes to the bit") {
  SimulatedCluster cluster({}, 1);
  start(cluster);
  cluster.ask(2, ConsoleVerb::stop);
  cluster.run(cluster.now() + 10);
  check_one_mean(cluster, {0, 1, 2, 3}, 2 * kNodes);
  for (int p = 0; p < kNodes; ++p) {
    const Mean& mean = *cluster.at(p).ending->mean;
    REQUIRE(mean.vectors.size() == 2);
    const ConstVec statistics = mean.vectors[1].vec();
    REQUIRE(statistics.size == 3);
    CHECK(statistics.as<float>()[0] == 1.0f);
    CHECK(statistics.as<float>()[1] == 3.5f);   // of ranks 0 to 7
    CHECK(statistics.as<float>()[2] == 17.5f);  // of their squares
  }
}
