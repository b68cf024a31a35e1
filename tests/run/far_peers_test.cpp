// Healthy runs under the guard (actors/guard): nothing is scaled, nobody is without exchanges, and
// a run goes as it goes without a guard.
#include <algorithm>
#include <cstdio>

#include "actors/algorithms/method_registry.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

Settings quadratic(const char* method, const char* topology, double rate) {
  Settings s = free_gossip(topology, 8, 0.05);
  s.rate = rate;
  s.method = method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.gradients = 0;
  s.until_s = 120;
  s.objective.objective = "quadratic";
  s.objective.dim = 32;
  s.objective.noise = 0.5;
  s.objective.zeta2 = 1;
  s.lr = {0.05, Schedule::cosine, 0.1};
  s.rule.optimizer = with_optimizer({0.9, 0}).optimizer;
  s.weights = std::string(method) == "d2" ? "lazy" : "metropolis";
  const bool is_lossy = method_named(method).check_compress != nullptr && s.method != "d_psgd";
  if (is_lossy && method_named(method).gossips) s.rule.gamma = 0.1;
  if (s.method == "moniqua") s.rule.compress = "modulo:8";  // what two neighbours may differ by
  return s;
}

struct Seen {
  RunResult result;
  std::vector<Alarm> alarms;
};

Seen seen(const Settings& s) {
  RunHooks hooks;
  std::vector<Alarm> alarms;
  hooks.sink.on_alarm = [&](const Alarm& alarm) { alarms.push_back(alarm); };
  RunResult result = simulate_one(s, 1, std::move(hooks));
  return {std::move(result), std::move(alarms)};
}

void check_healthy(const Settings& s) {
  const Status possible = check(s);
  INFO(s.method << " on " << s.topology << ", rate " << s.rate << ": "
                << (possible ? "" : possible.error().message));
  REQUIRE(possible);
  const Seen run = seen(s);
  CHECK(run.result.outcome.counts.applied > 0u);
  CHECK(run.result.outcome.counts.clipped == 0u);
  CHECK(run.result.outcome.counts.not_finite == 0u);
  for (const Alarm& alarm : run.alarms)
    FAIL_CHECK(alarm.line());
}

/// Two halves of eight ranks with optima of their own, without a link between them until each half
/// has come to rest, and for as long as that with all links.
Settings halves(const char* method, const char* topology, double rate, double lr) {
  Settings s = quadratic(method, topology, rate);
  s.objective.noise = 2;
  s.objective.zeta2 = 100;
  s.lr = {lr, Schedule::constant, 0};
  s.rule.optimizer = {};
  LinkFault cut = loss_of(FrameClass::all, 1);
  cut.until = std::max(20 / lr, 100 / rate);
  const bool all = s.topology == "complete";
  for (int a = 0; a < 4; ++a)
    for (int b = 4; b < 8; ++b)
      if (all || b == a + 1 || b == a + 7) cut.links.push_back({a, b});
  s.plan.link_faults = {cut};
  s.until_s = 2 * cut.until;
  return s;
}

double distance_after(Settings s, bool guarded, int seed = 1) {
  s.guarded = guarded;
  return consensus_distance(simulate_one(s, static_cast<uint64_t>(seed)).outcome);
}

}  // namespace

TEST_CASE("healthy ranks are taken whole under every method, at rare and at frequent exchanges") {
  constexpr std::pair<const char*, const char*> kRuns[] = {
      {"a2cid2", "ring"},
      {"a2cid2", "exponential"},
      {"ad_psgd", "complete"},
      {"d_psgd", "ring"},
      {"qgm", "ring"},
      {"d2", "ring"},
      {"sgp", "ring"},
      {"choco", "ring"},
      {"deepsqueeze", "ring"},
      {"powergossip", "ring"},
      {"moniqua", "ring"},
      {"gradient_tracking", "ring"},
      {"relaysgd", "chain"},
      {"relaysgd", "relay-tree"},
      {"relaysgd_async", "chain"},
      {"relaysum_grad", "chain"},
      {"all_reduce", "ring"},
  };
  for (const auto& [method, topology] : kRuns) {
    const bool pairs = method_named(method).pattern == Pattern::pairwise;
    for (const double rate : {0.02, 1.0, 10.0})
      if (pairs || rate == 1) check_healthy(quadratic(method, topology, rate));
  }
}

TEST_CASE("a slow rank, lost frames and a rank that is back with a copy are near") {
  for (const char* method : {"a2cid2", "ad_psgd", "d_psgd", "relaysgd_async"}) {
    const char* const topology = std::string(method) == "relaysgd_async" ? "chain" : "ring";
    Settings slow = quadratic(method, topology, 1);
    slow.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3}, 0)};
    slow.plan.rank_faults[0].factor = 10;
    check_healthy(slow);
    Settings lossy = quadratic(method, topology, 1);
    lossy.plan.link_faults = {loss_of(FrameClass::all, 0.1)};
    check_healthy(lossy);
    Settings back = quadratic(method, topology, 1);
    back.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 30),
                             rank_fault(RankFaultKind::restart, {3}, 60)};
    check_healthy(back);
  }
}

TEST_CASE("at rounding, where distances and steps say nothing, ranks are near") {
  for (const char* method : {"a2cid2", "ad_psgd", "d_psgd", "choco"}) {
    Settings s = quadratic(method, "ring", 1);
    s.objective.noise = s.objective.zeta2 = 0;
    s.lr = {0.5, Schedule::constant, 0};
    s.rule.optimizer = {};
    s.until_s = 2000;
    check_healthy(s);
  }
}

TEST_CASE("ranks that each came to rest at an optimum of its own agree once they can exchange") {
  for (const char* method : {"a2cid2", "ad_psgd", "d_psgd"}) {
    INFO(method);
    Settings s = quadratic(method, "ring", 1);
    s.ranks = 4;
    s.objective.noise = 0;
    s.objective.zeta2 = 100;
    s.lr = {0.05, Schedule::constant, 0};
    s.rule.optimizer = {};
    s.until_s = 3000;
    LinkFault cut = loss_of(FrameClass::all, 1);
    cut.until = 1000;
    s.plan.link_faults = {cut};
    const Seen guarded = seen(s);
    s.guarded = false;
    const Seen bare = seen(s);
    const double apart = consensus_distance(guarded.result.outcome);
    CHECK(apart < 1.1 * consensus_distance(bare.result.outcome));
  }
}

TEST_CASE("two halves that trained without each other agree once they can exchange") {
  for (const char* method : {"a2cid2", "ad_psgd"})
    for (const char* topology : {"ring", "complete"}) {
      const Settings s = halves(method, topology, 1, 0.01);
      REQUIRE(check(s));
      INFO(method << " on " << topology);
      CHECK(distance_after(s, true) < 1.1 * distance_after(s, false));
    }
}

TEST_CASE("how far apart two halves end that trained without each other", "[.][measure]") {
  for (const char* topology : {"ring", "complete"})
    for (const double rate : {0.02, 1.0, 10.0})
      for (const double lr : {0.05, 0.01, 0.002}) {
        if (rate * 20 / lr > 20'000) continue;  // minutes
        constexpr int kSeeds = 4;
        double guarded = 0, bare = 0;
        for (int seed = 1; seed <= kSeeds; ++seed) {
          const Settings s = halves("a2cid2", topology, rate, lr);
          guarded += distance_after(s, true, seed) / kSeeds;
          bare += distance_after(s, false, seed) / kSeeds;
        }
        std::printf("%-8s  %4g exchanges a step, lr %-5g  guarded %-10.4g without %.4g\n", topology,
                    rate, lr, guarded, bare);
        std::fflush(stdout);
      }
}

TEST_CASE("where five edges of ten are slow, exchanges go on at their rate and raise no alarm") {
  Settings s = quadratic("a2cid2", "ring", 30);
  s.ranks = 10;
  s.objective.dim = 100;
  s.until_s = 100;
  LinkFault delay;
  delay.kind = LinkFaultKind::delay;
  delay.links = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 0}};
  delay.seconds = 2;
  s.plan.link_faults = {delay};
  REQUIRE(check(s));
  const Seen guarded = seen(s);
  s.guarded = false;
  const Seen bare = seen(s);
  CHECK(guarded.alarms.empty());
  CHECK(guarded.result.outcome.exchanges * 100 > bare.result.outcome.exchanges * 98);
}
