// Whole nodes whose ranks live on devices that reach each other's memory: snapshots are read where
// they lie, or go by a fake of NCCL. The devices are adversaries (tests/device), late by up to a
// few tenths of a gradient.
//
//   GRAPEVINE_SEED=17 bin/cluster_test "after any faults nodes on devices*"     one seed, its log
#include <cstdio>
#include <map>
#include <set>

#include "kernels/base/checksum.hpp"
#include "tests/catch.hpp"
#include "tests/cluster/scenario.hpp"
#include "tests/seeds.hpp"

using namespace grapevine;
using namespace grapevine::test;
using testing::NcclWorld;

namespace {

const std::set<std::string> kNothing;

size_t memories_open(SimulatedCluster& cluster) {
  size_t open = 0;
  for (const auto& [descriptor, memory] : cluster.devices().shared)
    open += !memory.expired();
  return open;
}

/// Payloads that were read in place or went by NCCL, by what a node has last told.
struct Carried {
  uint64_t lent = 0, borrowed = 0;
  uint64_t sent = 0, received = 0, broken = 0;  // by NCCL; exchanges that broke off
};
Carried carried_at(SimulatedCluster& cluster, int process) {
  Carried sum;
  for (const DeviceEdge& edge : cluster.at(process).status.device_edges) {
    sum.lent += edge.lent;
    sum.borrowed += edge.borrowed;
    sum.sent += edge.sent_by_nccl;
    sum.received += edge.received_by_nccl;
    sum.broken += edge.broken_by_nccl;
  }
  return sum;
}

Carried asked_carried(SimulatedCluster& cluster, int process) {
  cluster.ask(process, ConsoleVerb::status);
  cluster.run(cluster.now() + 0.2);
  return carried_at(cluster, process);
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
  CHECK(cluster.nccl().standing() == 0);
}

}  // namespace

namespace {

struct AfterFaults {
  uint64_t runs = 0, sums = 0, edges = 0;  // checked
  Carried all;
};

/// The promises that the run of every seed must keep under all faults; `prepare` may add faults.
template <class Prepare>
AfterFaults run_scenarios(const Seeds& seeds, DeviceLink link, const char* test,
                          Prepare&& prepare) {
  AfterFaults seen;
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    Scenario scenario(seed, link);
    prepare(scenario.cluster());
    scenario.run();
    INFO(scenario.name() << "\nagain: GRAPEVINE_SEED=" << seed << " bin/cluster_test \"" << test
                         << "\"");
    if (seeds.alone) std::fputs(scenario.lines().c_str(), stderr);
    CHECK(scenario.complaint() == "");
    SimulatedCluster& cluster = scenario.cluster();
    check_nothing_left(cluster);
    for (int p = 0; p < cluster.count(); ++p) {
      seen.all.borrowed += carried_at(cluster, p).borrowed;
      seen.all.sent += carried_at(cluster, p).sent;
      seen.all.broken += carried_at(cluster, p).broken;
    }
    ++seen.runs;
    seen.sums += scenario.sums_checked();
    seen.edges += scenario.edges_checked();
  }
  return seen;
}

}  // namespace

TEST_CASE("after any faults nodes on devices agree, lose nothing, and have their memory back") {
  const Seeds seeds = seeds_wanted(60);
  const AfterFaults seen = run_scenarios(
      seeds, DeviceLink::automatic, "after any faults nodes on devices*", [](SimulatedCluster&) {});
  WARN(seen.all.borrowed << " payloads were read in place; of " << seen.runs
                         << " runs edges were compared in " << seen.edges
                         << ", the sum was exact in " << seen.sums);
  if (seeds.alone) return;
  CHECK(seen.all.borrowed > 200 * seen.runs);
  CHECK(seen.edges >= seen.runs / 3);
  CHECK(seen.sums >= seen.runs / 8);
}

TEST_CASE(
    "after any faults nodes whose snapshots go by NCCL, which fails, agree and lose nothing") {
  const Seeds seeds = seeds_wanted(30);
  const AfterFaults seen =
      run_scenarios(seeds, DeviceLink::nccl, "after any faults nodes whose snapshots go by NCCL*",
                    [](SimulatedCluster& cluster) {
                      NcclWorld& nccl = cluster.nccl();
                      nccl.begins_not = nccl.meets_never = 0.05;
                      nccl.queues_never = nccl.errs = 0.001;
                      nccl.lets_go_never = 0.2;
                    });
  WARN(seen.all.sent << " payloads went by NCCL, " << seen.all.broken << " exchanges broke off; of "
                     << seen.runs << " runs edges were compared in " << seen.edges
                     << ", the sum was exact in " << seen.sums);
  if (seeds.alone) return;
  CHECK(seen.all.sent > 100 * seen.runs);
  CHECK(seen.all.broken > seen.runs / 2);
  CHECK(seen.edges >= seen.runs / 3);
  CHECK(seen.sums >= seen.runs / 8);
}

TEST_CASE(
    "snapshots read in place, or sent by NCCL, give the bits that copies by the host's memory "
    "give") {
  for (const char* method : {"d_psgd", "gradient_tracking", "qgm", "relaysgd"}) {
    std::map<int, uint64_t> first;  // what each rank ends with in the first run, hashed
    for (const DeviceLink link : {DeviceLink::host, DeviceLink::vmm, DeviceLink::nccl}) {
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
      constexpr uint64_t kSome = 10;  // by NCCL one at a time, and the others by the host
      const Carried seen = asked_carried(cluster, 1);
      CHECK((seen.lent > kSome) == (link == DeviceLink::vmm));
      CHECK((seen.borrowed > kSome) == (link == DeviceLink::vmm));
      CHECK((seen.sent > kSome) == (link == DeviceLink::nccl));
      CHECK((seen.received > kSome) == (link == DeviceLink::nccl));
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

namespace {

uint64_t applied_by(const NodeStatus& status) {
  uint64_t sum = 0;
  for (const CommunicatorReport& c : status.ranks.communicators)
    sum += c.counts.applied;
  return sum;
}

/// Process 1 of three was killed: how many of the others go on by the way that is counted. All go
/// on exchanging.
uint64_t survivors_going_on(SimulatedCluster& cluster, uint64_t Carried::*counted) {
  uint64_t go_on = 0;
  for (const int p : {0, 2}) {
    REQUIRE(cluster.running(p));
    const uint64_t before = asked_carried(cluster, p).*counted;
    const uint64_t applied = applied_by(cluster.at(p).status);
    CHECK(cluster.at(p).status.device_edges.size() == 1);
    cluster.run(cluster.now() + 3);
    go_on += asked_carried(cluster, p).*counted > before;
    CHECK(applied_by(cluster.at(p).status) > applied);
  }
  return go_on;
}

}  // namespace

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
    in_place += survivors_going_on(cluster, &Carried::borrowed);
    cluster.ask(0, ConsoleVerb::stop);
    end(cluster);
    check_nothing_left(cluster);
  }
  CHECK(in_place == 200);  // the others go on
}

TEST_CASE(
    "a node in exchanges by NCCL is killed at any moment, and nearly all others go on by it") {
  uint64_t go_on = 0, broken = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    SimulatedCluster cluster({}, seed);
    cluster.use_devices(seed);
    Settings s = endless(seed % 2 == 0 ? "a2cid2" : "d_psgd", "complete", 6, 2);
    s.device_link = DeviceLink::nccl;
    found(cluster, 3, s);
    cluster.run(cluster.now() + 0.0137 * static_cast<double>(seed));
    const testing::Adversary& victim = cluster.at(1).device->adversary();
    while (seed % 4 != 0 && !cluster.nccl().exchanges(victim) && cluster.now() < 20)
      cluster.run(cluster.now() + 1e-3);
    cluster.kill(1);
    cluster.run(cluster.now() + 15);
    go_on += survivors_going_on(cluster, &Carried::sent);
    for (const int p : {0, 2})
      for (const std::string& line : cluster.at(p).lines)
        broken += line.find("with n101 by NCCL has failed") != std::string::npos;
    cluster.ask(0, ConsoleVerb::stop);
    end(cluster);
    check_nothing_left(cluster);
    cluster.devices().run();
    CHECK(cluster.nccl().stuck() == 0);
  }
  INFO(broken << " exchanges with the dead broke off");
  // A broken exchange may break that of the survivors: they go by the host then.
  CHECK(go_on >= 114);
  CHECK(broken > 10);
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
