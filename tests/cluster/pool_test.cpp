// One pool of gradients for whole nodes on the virtual clock, one run per seed.
//
//   GRAPEVINE_SEEDS=1000 bin/cluster_test "the gradients of a run*"     more seeds than usual
//   GRAPEVINE_SEED=17    bin/cluster_test "the gradients of a run*"     that one alone, with its
//   log
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cluster/simulated_cluster.hpp"
#include "tests/seeds.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr double kEnds_s = 200;   // of a run whose work is 20 s where nothing happens
constexpr double kBetween_s = 2;  // news of a node that nobody has heard: what it takes meanwhile

Settings pooled(int ranks, uint64_t seed, double work_s) {
  Settings s = endless("a2cid2", "ring", ranks, 0);
  s.seed = seed;
  s.share = Share::pool;
  s.speed_spread = 0.3;
  s.gradients = static_cast<uint64_t>(work_s / s.gradient_s) * static_cast<uint64_t>(ranks);
  return s;
}

/// Nodes of one or two ranks each that take the run's gradients, and what goes wrong meanwhile.
class PoolRun {
 public:
  explicit PoolRun(uint64_t seed)
      : random_(seed, 0, Purpose::test),
        hosts_(3 + static_cast<int>(random_.below(4))),
        here_(1 + static_cast<int>(random_.below(2))),
        settings_(pooled(hosts_ * here_, seed, 20)),
        cluster_({.latency_s = 1e-3}, seed) {
    settings_.local_ranks = here_;
    for (int h = 0; h < hosts_; ++h)
      cluster_.start(h, settings_, here_ * h, settings_.ranks,
                     h == 0 ? std::vector<int>{} : std::vector<int>{0});
  }

  void kill(int p) { cluster_.kill(p), ++lost_; }
  void run_until_end() {
    while (!over() && cluster_.now() < kEnds_s)
      cluster_.run(cluster_.now() + 0.5);
  }
  bool over() {
    for (int p = 0; p < cluster_.count(); ++p)
      if (cluster_.at(p).alive && !cluster_.at(p).stopped && !cluster_.at(p).ending) return false;
    return true;
  }

  /// By all processes, those that were killed too, as far as is known.
  uint64_t taken() {
    uint64_t sum = 0;
    for (int p = 0; p < cluster_.count(); ++p) {
      const auto& process = cluster_.at(p);
      if (process.outcome) {
        sum += process.outcome->gradients;
        continue;
      }
      for (const WorkerReport& w : process.last_words.workers)
        sum += w.gradients;
    }
    return sum;
  }
  /// Up to one a rank, and of each process that was lost what nobody has heard of.
  uint64_t at_most() const {
    const double untold = lost_ * here_ * kBetween_s / settings_.gradient_s;
    return settings_.gradients + static_cast<uint64_t>(settings_.ranks + hosts_ + untold);
  }
  std::string lines() {
    std::string all;
    for (int p = 0; p < cluster_.count(); ++p)
      for (const std::string& line : cluster_.at(p).lines)
        all += cluster_.at(p).name + " " + line + "\n";
    return all;
  }

  Random random_;
  int hosts_, here_;
  Settings settings_;
  SimulatedCluster cluster_;
  int lost_ = 0;  // processes, killed or frozen
};

}  // namespace

TEST_CASE("the gradients of a run are taken by whoever is free, whatever happens to its nodes") {
  const Seeds seeds = seeds_wanted(40);
  double worst = 0;
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    PoolRun run(seed);
    const uint32_t what = run.random_.below(5);
    const auto one = static_cast<int>(run.random_.below(static_cast<uint32_t>(run.hosts_)));
    const double at = run.random_.uniform(3, 12);
    run.cluster_.run(at);
    if (what == 1) run.kill(one);
    if (what == 2) run.cluster_.stop(one), ++run.lost_;  // for longer than the others wait
    if (what == 3) {
      run.cluster_.start(run.hosts_, run.settings_, -1, run.settings_.ranks, {one});
      run.settings_.ranks += run.here_;
    }
    if (what == 4) run.cluster_.stop(one);
    run.cluster_.run(at + (what == 2 ? 7 : 1));
    run.cluster_.go_on(one);
    run.run_until_end();
    INFO("again: GRAPEVINE_SEED=" << seed << " bin/cluster_test \"the gradients of a run*\"; "
                                  << what << " at " << at);
    if (seeds.alone) std::fputs(run.lines().c_str(), stderr);
    CHECK(run.over());
    CHECK(run.taken() >= run.settings_.gradients);
    CHECK(run.taken() <= run.at_most());
    worst = std::max(
        worst, static_cast<double>(run.taken()) / static_cast<double>(run.settings_.gradients));
    if (what == 0) CHECK(run.cluster_.now() < 25);
  }
  WARN("at most " << 100 * (worst - 1) << " % more than wanted");
}

TEST_CASE("a part that is cut off does the whole rest, and the run ends") {
  PoolRun run(3);
  run.cluster_.run(6);
  for (int h = 1; h < run.hosts_; ++h) {
    run.cluster_.network().cut(0, h);
    run.cluster_.network().cut(h, 0);
  }
  run.run_until_end();
  CHECK(run.over());
  CHECK(run.taken() >= run.settings_.gradients);
  const uint64_t before = static_cast<uint64_t>(run.settings_.ranks) * 50;
  CHECK(run.taken() <= 2 * run.settings_.gradients - before);
}

TEST_CASE("a node that is slow costs a run of many nodes its own share and no more") {
  Settings s = pooled(4, 1, 20);
  s.local_ranks = 1;
  s.speed_spread = 0;
  s.plan.rank_faults = {{.kind = RankFaultKind::slow, .ranks = {3}, .at = 0, .factor = 10}};
  SimulatedCluster cluster({.latency_s = 1e-3}, 1);
  for (int h = 0; h < 4; ++h)
    cluster.start(h, s, h, 4, h == 0 ? std::vector<int>{} : std::vector<int>{0});
  const double ideal_s = 20 * 4 / 3.1;
  double ended_s = 0;
  while (cluster.now() < kEnds_s && ended_s == 0) {
    cluster.run(cluster.now() + 0.1);
    ended_s = cluster.at(0).outcome ? cluster.now() : 0;
  }
  CHECK(ended_s > 0);
  CHECK(ended_s < 1.1 * ideal_s);
  uint64_t taken = 0;
  cluster.run(cluster.now() + 5);
  for (int p = 0; p < 4; ++p) {
    REQUIRE(cluster.at(p).outcome);
    for (const WorkerReport& w : cluster.at(p).outcome->workers)
      taken += w.gradients;
  }
  CHECK(taken >= s.gradients);
  CHECK(taken <= s.gradients + 8);
}

namespace {

/// Gradients of four nodes beyond the work, if one leaves: its last count is a second old.
constexpr uint64_t kAhead = 4 + 20;

/// Four nodes of one rank each, all as fast.
struct EvenRun {
  EvenRun() {
    settings.local_ranks = 1;
    settings.speed_spread = 0;
    for (int h = 0; h < 4; ++h)
      cluster.start(h, settings, h, 4, h == 0 ? std::vector<int>{} : std::vector<int>{0});
    cluster.run(8);
  }

  /// The lines of alarms at all nodes.
  std::string alarms() {
    std::string all;
    for (int p = 0; p < cluster.count(); ++p)
      for (const std::string& line : cluster.at(p).lines)
        if (line.find(kAlarm) != line.npos) all += cluster.at(p).name + " " + line + "\n";
    return all;
  }

  Settings settings = pooled(4, 1, 20);
  SimulatedCluster cluster{{.latency_s = 1e-3}, 1};
};

}  // namespace

TEST_CASE("who leaves or dies keeps no other rank from its steps, and no finished step is lost") {
  for (const bool dies : {false, true}) {
    EvenRun run;
    dies ? run.cluster.kill(2) : run.cluster.leave(2);
    run.cluster.run(60);
    uint64_t taken = 0;
    for (const int p : {0, 1, 3}) {
      REQUIRE(run.cluster.at(p).outcome);
      const Outcome& outcome = *run.cluster.at(p).outcome;
      const Cost cost = cost_of(outcome.costs);
      INFO(p << (dies ? " beside one that dies" : " beside one that leaves"));
      CHECK(cost.longest_steps > 0);
      CHECK(cost.longest_steps < 2);
      CHECK(cost.lost.empty());
      taken += outcome.gradients;
    }
    if (dies) continue;
    REQUIRE(run.cluster.at(2).outcome);
    taken += run.cluster.at(2).outcome->gradients;
    CHECK(taken >= run.settings.gradients);
    CHECK(taken <= run.settings.gradients + kAhead);
  }
}

TEST_CASE("a drained node's part goes to the others, and only the last one stops the run") {
  EvenRun run;
  run.cluster.ask(3, ConsoleVerb::drain);
  run.cluster.run(10);
  REQUIRE(run.cluster.at(3).ending);
  CHECK(run.cluster.at(3).ending->drained);
  CHECK_FALSE(run.cluster.at(3).ending->stopped);
  for (const int p : {2, 1, 0}) {
    run.cluster.ask(p, ConsoleVerb::drain);
    run.cluster.run(run.cluster.now() + 2);
    REQUIRE(run.cluster.at(p).ending);
    CHECK(run.cluster.at(p).ending->drained);
    CHECK(run.cluster.at(p).ending->stopped == (p == 0));
  }
  EvenRun ends;
  ends.cluster.ask(3, ConsoleVerb::drain);
  ends.cluster.run(60);
  uint64_t taken = 0;
  for (int p = 0; p < 4; ++p) {
    REQUIRE(ends.cluster.at(p).outcome);
    taken += ends.cluster.at(p).outcome->gradients;
    CHECK(ends.cluster.at(p).ending->drained == (p == 3));
    CHECK_FALSE(ends.cluster.at(p).ending->stopped);
  }
  CHECK(taken >= ends.settings.gradients);
  CHECK(taken <= ends.settings.gradients + kAhead);
}

TEST_CASE("nodes that leave at the same time, or one after the other, are no alarm to anybody") {
  for (const int leaving : {1, 2, 3, 4})
    for (const double between_s : {0.0, 0.05, 3.0}) {
      INFO(leaving << " nodes, " << between_s << " s between them");
      EvenRun run;
      for (int p = 4 - leaving; p < 4; ++p) {
        p % 2 == 0 ? run.cluster.leave(p) : run.cluster.ask(p, ConsoleVerb::drain);
        run.cluster.run(run.cluster.now() + between_s);
      }
      run.cluster.run(60);
      CHECK(run.alarms() == "");
      for (int p = 0; p < 4; ++p) {
        REQUIRE(run.cluster.at(p).ending);
        CHECK(run.cluster.at(p).ending->lost.empty());
        const bool stays = p < 4 - leaving;
        if (stays) CHECK(run.cluster.at(p).ending->left.size() == static_cast<size_t>(leaving));
      }
    }
}

TEST_CASE("the death of a node is an alarm beside nodes that leave, until it is back") {
  EvenRun run;
  run.cluster.leave(3);
  run.cluster.kill(2);
  run.cluster.run(12);
  CHECK_THAT(run.alarms(), Catch::Contains("n102: it does not answer"));
  CHECK_THAT(run.alarms(), !Catch::Contains("node n103"));
  run.cluster.start(2, run.settings, -1, 4, {0});
  run.cluster.run(60);
  CHECK(run.cluster.at(0).ending->lost.empty());
  CHECK(run.cluster.at(0).ending->left == std::vector<std::string>{"n103"});
}
