// Whole nodes whose ranks live on devices that reach each other's memory: snapshots are read where
// they lie. The devices are adversaries (tests/device), late by up to a few tenths of a gradient.
//
//   GRAPEVINE_SEED=17 bin/cluster_test "after any faults nodes on devices*"     one seed, its log
#include <cstdio>
#include <map>
#include <set>

#include "kernels/checksum.hpp"
#include "tests/catch.hpp"
#include "tests/cluster/scenario.hpp"
#include "tests/seeds.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const std::set<std::string> kNothing;

size_t memories_open(SimulatedCluster& cluster) {
  size_t open = 0;
  for (const auto& [descriptor, memory] : cluster.devices().shared)
    open += !memory.expired();
  return open;
}

/// Payloads that were read in place, by what a node has last told.
struct InPlace {
  uint64_t lent = 0, borrowed = 0;
};
InPlace in_place_at(SimulatedCluster& cluster, int process) {
  InPlace sum;
  for (const DeviceEdge& edge : cluster.at(process).status.device_edges) {
    sum.lent += edge.lent;
    sum.borrowed += edge.borrowed;
  }
  return sum;
}

InPlace asked_in_place(SimulatedCluster& cluster, int process) {
  cluster.ask(process, ConsoleVerb::status);
  cluster.run(cluster.now() + 0.2);
  return in_place_at(cluster, process);
}

bool is_over(SimulatedCluster& cluster) {
  for (int p = 0; p < cluster.count(); ++p)
    if (cluster.at(p).alive) return false;
  return true;
}

/// To the end of all nodes, by their shares or by `stop`.
void end(SimulatedCluster& cluster) {
  const double until = cluster.now() + 100;
  while (!is_over(cluster) && cluster.now() < until)
    cluster.run(cluster.now() + 1);
  CHECK(is_over(cluster));
}

void check_nothing_left(SimulatedCluster& cluster) {
  CHECK(cluster.devices().judge().findings() == kNothing);
  CHECK(cluster.network().lines() == 0);
  CHECK(memories_open(cluster) == 0);
}

}  // namespace

TEST_CASE("after any faults nodes on devices agree, lose nothing, and have their memory back") {
  const Seeds seeds = seeds_wanted(60);
  uint64_t in_place = 0, sums = 0, edges = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    Scenario scenario(seed, true);
    scenario.run();
    INFO(scenario.name() << "\nagain: GRAPEVINE_SEED=" << seed
                         << " bin/cluster_test \"after any faults nodes on devices*\"");
    if (seeds.alone) std::fputs(scenario.lines().c_str(), stderr);
    CHECK(scenario.complaint() == "");
    SimulatedCluster& cluster = scenario.cluster();
    check_nothing_left(cluster);
    for (int p = 0; p < cluster.count(); ++p)
      in_place += in_place_at(cluster, p).borrowed;
    sums += scenario.sums_checked();
    edges += scenario.edges_checked();
  }
  const uint64_t runs = seeds.last - seeds.first + 1;
  WARN(in_place << " payloads were read in place; of " << runs << " runs edges were compared in "
                << edges << ", the sum was exact in " << sums);
  if (seeds.alone) return;
  CHECK(in_place > 200 * runs);
  CHECK(edges >= runs / 3);
  CHECK(sums >= runs / 8);
}

TEST_CASE("snapshots read in place give the bits that copies by the host's memory give") {
  for (const char* method : {"d_psgd", "gradient_tracking", "qgm", "relaysgd"}) {
    std::map<int, uint64_t> first;  // what each rank ends with in the first run, hashed
    for (const DeviceLink link : {DeviceLink::host, DeviceLink::vmm}) {
      INFO(method << ", link " << static_cast<int>(link));
      SimulatedCluster cluster({}, 1);
      cluster.use_devices(1);
      const bool is_tree = std::string(method) == "relaysgd";
      Settings s = endless(method, is_tree ? "binary-tree" : "ring", 6, 2);
      s.gradient_s = 0.5;  // so that all begin within the first one
      s.gradients = 6 * 60;
      s.device_link = link;
      found(cluster, 3, s);
      cluster.run(20);
      const InPlace seen = asked_in_place(cluster, 1);
      CHECK((seen.lent > 20) == (link == DeviceLink::vmm));
      CHECK((seen.borrowed > 20) == (link == DeviceLink::vmm));
      end(cluster);
      for (int p = 0; p < cluster.count(); ++p) {
        REQUIRE(cluster.at(p).outcome);
        for (const RankParameters& end : cluster.at(p).outcome->parameters) {
          const uint64_t hash = xxhash64(end.x->vec().data, end.x->vec().bytes());
          const auto [known, is_new] = first.emplace(end.rank, hash);
          CHECK((is_new || known->second == hash));
        }
      }
      CHECK(first.size() == 6);
      check_nothing_left(cluster);
    }
  }
}

TEST_CASE("a node that reads in place is killed at any moment, as is one that lends") {
  uint64_t in_place = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    SimulatedCluster cluster({}, seed);
    cluster.use_devices(seed);
    found(cluster, 3, endless(seed % 2 == 0 ? "a2cid2" : "d_psgd", "complete", 6, 2));
    cluster.run(cluster.now() + 0.0137 * static_cast<double>(seed));
    cluster.kill(1);
    cluster.run(cluster.now() + 15);
    for (const int p : {0, 2}) {
      REQUIRE(cluster.running(p));
      const uint64_t before = asked_in_place(cluster, p).borrowed;
      const size_t links = cluster.at(p).status.device_edges.size();
      CHECK(links == 1);
      cluster.run(cluster.now() + 3);
      in_place += asked_in_place(cluster, p).borrowed > before;
    }
    cluster.ask(0, ConsoleVerb::stop);
    end(cluster);
    check_nothing_left(cluster);
  }
  CHECK(in_place == 200);  // the others go on
}

TEST_CASE("what orders lent snapshots between nodes is found out where it is left out") {
  std::set<testing::AdverseWorld::Site> sites;
  const auto run = [&](uint64_t seed, const testing::AdverseWorld::Site* left_out) {
    SimulatedCluster cluster({}, seed);
    cluster.use_devices(seed);
    if (left_out != nullptr) cluster.devices().left_out = *left_out;
    found(cluster, 2, endless("a2cid2", "ring", 4, 2));
    cluster.run(cluster.now() + 6);
    for (const auto& [site, count] : cluster.devices().sites)
      if (site.second.find("lent_snapshots") != std::string::npos) sites.insert(site);
    return !cluster.devices().judge().findings().empty();
  };
  CHECK_FALSE(run(1, nullptr));
  CHECK(sites.size() == 4);  // what writes it and when that is over, what reads it likewise
  for (const testing::AdverseWorld::Site& site : std::set(sites)) {
    INFO(site.first << " at " << site.second);
    int found = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed)
      found += run(seed, &site);
    CHECK(found >= 5);
  }
}
