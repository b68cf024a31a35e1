// Healthy runs under the guard (actors/guard): nothing is scaled, nobody is without exchanges, and
// a run goes as it goes without a guard.
//
//   bin/actors_runs_test "what the guard does to*"     200 draws of method, graph, rate and fault,
//                                                      and 200 with outer steps of 30 inner ones
//   GRAPEVINE_SEED=17 bin/actors_runs_test "what*"     one of them
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>

#include "actors/algorithms/method_registry.hpp"
#include "kernels/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"
#include "tests/seeds.hpp"

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
  RunResult result = simulate_one(s, s.seed, std::move(hooks));
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

/// No frame passes between ranks 0 to 3 and 4 to 7.
LinkFault cut_in_halves() {
  LinkFault cut = loss_of(FrameClass::all, 1);
  for (int a = 0; a < 4; ++a)
    for (int b = 4; b < 8; ++b)
      cut.links.push_back({a, b});
  return cut;
}

/// Two halves of eight ranks with optima of their own, without a link between them until each half
/// has come to rest, and for as long as that with all links.
Settings halves(const char* method, const char* topology, double rate, double lr,
                double noise = 2) {
  Settings s = quadratic(method, topology, rate);
  s.objective.noise = noise;
  s.objective.zeta2 = 100;
  s.lr = {lr, Schedule::constant, 0};
  s.rule.optimizer = {};
  LinkFault cut = cut_in_halves();
  cut.until = std::max(20 / lr, 100 / rate);
  s.plan.link_faults = {cut};
  s.until_s = 2 * cut.until;
  return s;
}

/// Methods, each on a graph that it accepts.
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

/// A change of the settings of a run of eight healthy ranks, whose end they have already.
struct Happening {
  const char* name;
  void (*happens)(Settings& s);
};

constexpr Happening kHappenings[] = {
    {"nothing", [](Settings&) {}},
    {"latency of 2 steps", [](Settings& s) { s.link.latency_s = 2; }},
    {"loss of 10 %", [](Settings& s) { s.plan.link_faults = {loss_of(FrameClass::all, 0.1)}; }},
    {"a rank dies and comes back with a copy",
     [](Settings& s) {
       s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, s.until_s / 4),
                             rank_fault(RankFaultKind::restart, {3}, s.until_s / 2)};
     }},
    {"three ranks come late",
     [](Settings& s) {
       s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {1, 2, 6}, 0.01),
                             rank_fault(RankFaultKind::restart, {1, 2, 6}, s.until_s / 2)};
     }},
    {"one rank pauses",
     [](Settings& s) {
       s.plan.rank_faults = {rank_fault(RankFaultKind::pause, {3}, s.until_s / 3)};
       s.plan.rank_faults[0].until = s.until_s / 2;
     }},
    {"all ranks pause",
     [](Settings& s) {
       s.plan.rank_faults = {rank_fault(RankFaultKind::pause, {}, s.until_s / 3)};
       s.plan.rank_faults[0].until = s.until_s / 2;
     }},
    {"a partition heals",
     [](Settings& s) {
       LinkFault cut = cut_in_halves();
       cut.at = s.until_s / 4;
       cut.until = s.until_s / 2;
       s.plan.link_faults = {cut};
     }},
    {"one rank is 10 times slower",
     [](Settings& s) {
       s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3}, 0)};
       s.plan.rank_faults[0].factor = 10;
     }},
    {"AdamW", [](Settings& s) { s.rule.optimizer.kind = OptimizerKind::adamw; }},
    {"no schedule",
     [](Settings& s) {
       s.lr = {0.05, Schedule::constant, 0};
     }},
    {"30 inner steps, outer 0.7 and 0.9",
     [](Settings& s) {
       s.inner_steps = 30;
       s.outer_lr = 0.7;
       s.until_s *= 10;
     }},
};

struct Draw {
  Settings settings;
  const char* happening = "";
};

/// The same run, with outer steps of so many inner ones: what happens after a gradient happens
/// after an outer step.
void take_inner_steps(Settings& s, uint64_t steps) {
  const auto times = static_cast<double>(steps);
  s.inner_steps = steps;
  s.outer_lr = 0.7;
  s.until_s *= times;
  s.link.latency_s *= times;
  for (RankFault& fault : s.plan.rank_faults)
    fault.at *= times, fault.until *= times;
  for (LinkFault& fault : s.plan.link_faults)
    fault.at *= times, fault.until *= times;
}

/// By the seed: a method, a graph, a rate and a happening that go together.
Draw drawn(uint64_t seed, uint64_t inner_steps = 1) {
  for (Random random(seed, 0, Purpose::problem);;) {
    const auto& [method, tree] = kRuns[random.below(std::size(kRuns))];
    constexpr const char* kGraphs[] = {"ring", "exponential", "complete"};
    const char* const graph = method_named(method).relays ? tree : kGraphs[random.below(3)];
    constexpr double kRates[] = {0.02, 1, 10, 50};
    Draw draw{quadratic(method, graph, kRates[random.below(4)]), ""};
    const Happening& happening = kHappenings[random.below(std::size(kHappenings))];
    draw.happening = happening.name;
    Settings& s = draw.settings;
    if (method_named(s.method).pattern != Pattern::pairwise) s.rate = 1;
    s.until_s = s.rate < 1 ? 1000 : s.rate > 10 ? 60 : 200;
    s.seed = seed;
    happening.happens(s);
    if (inner_steps > 1 && s.inner_steps == 1) take_inner_steps(s, inner_steps);
    if (check(s)) return draw;
  }
}

struct Compared {
  bool same_exchanges = false;   // as many on each edge, the last one at the same time
  bool same_parameters = false;  // to the bit
  uint64_t exchanges = 0, clipped = 0, not_finite = 0;
  double distance = 1;  // over that without a guard
  std::vector<Alarm> alarms;
};

bool same_exchanges(const Outcome& a, const Outcome& b) {
  const auto same_edge = [](const EdgeCount& e, const EdgeCount& f) {
    return e.peer == f.peer && e.applied == f.applied && e.applied_at == f.applied_at;
  };
  return std::equal(a.communicators.begin(), a.communicators.end(), b.communicators.begin(),
                    b.communicators.end(), [&](const auto& c, const auto& d) {
                      return std::equal(c.edges.begin(), c.edges.end(), d.edges.begin(),
                                        d.edges.end(), same_edge);
                    });
}

Compared compared(const Settings& s) {
  const Seen guarded = seen(s);
  Settings open = s;
  open.guarded = false;
  const Seen bare = seen(open);
  const Outcome& with = guarded.result.outcome;
  Compared c;
  c.same_exchanges = same_exchanges(with, bare.result.outcome);
  c.same_parameters = parameter_hash(with) == parameter_hash(bare.result.outcome);
  c.exchanges = with.counts.applied;
  c.clipped = with.counts.clipped;
  c.not_finite = with.counts.not_finite;
  c.distance = consensus_distance(with) / consensus_distance(bare.result.outcome);
  for (const Alarm& alarm : guarded.alarms)
    if (std::none_of(bare.alarms.begin(), bare.alarms.end(),
                     [&](const Alarm& other) { return other.same_place(alarm); }))
      c.alarms.push_back(alarm);
  return c;
}

void count_draws(uint64_t inner_steps) {
  const test::Seeds seeds = test::seeds_wanted(200);
  int same_exchanges = 0, same_parameters = 0, alarmed = 0;
  std::mutex together;
  for_seeds(static_cast<int>(seeds.last - seeds.first + 1), [&](int k) {
    const uint64_t seed = seeds.first + static_cast<uint64_t>(k) - 1;
    const Draw draw = drawn(seed, inner_steps);
    const Settings& s = draw.settings;
    const Compared c = compared(s);
    const std::scoped_lock lock(together);
    same_exchanges += c.same_exchanges;
    same_parameters += c.same_parameters;
    alarmed += !c.alarms.empty();
    const bool is_equal = c.same_exchanges && c.same_parameters && c.alarms.empty();
    if (is_equal && !seeds.alone) return;
    std::printf(
        "seed %zu: %s on %s, rate %g, %s: %zu exchanges, %zu clipped, %zu not finite, %s"
        "distance %.3g times\n",
        size_t{seed}, s.method.c_str(), s.topology.c_str(), s.rate, draw.happening,
        size_t{c.exchanges}, size_t{c.clipped}, size_t{c.not_finite},
        c.same_exchanges ? "" : "other exchanges, ", c.distance);
    for (const Alarm& alarm : c.alarms)
      std::printf("  alarm: %s\n", alarm.line().c_str());
    std::fflush(stdout);
  });
  std::printf(
      "of %zu runs with and without a guard: the same exchanges %d, the same bits %d; alarms of "
      "the guard %d\n",
      size_t{seeds.last - seeds.first + 1}, same_exchanges, same_parameters, alarmed);
}

double distance_after(Settings s, bool guarded, int seed = 1) {
  s.guarded = guarded;
  return consensus_distance(simulate_one(s, static_cast<uint64_t>(seed)).outcome);
}

}  // namespace

TEST_CASE("healthy ranks are taken whole under every method, at rare and at frequent exchanges") {
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

TEST_CASE("changes by compressed messages are near, with steps that grow or shrink too") {
  // Draws in which up to five changes were scaled while a change counted for one rank.
  for (const uint64_t seed : {1367, 1520, 1929, 1989}) {
    const Draw draw = drawn(seed);
    INFO(draw.happening);
    check_healthy(draw.settings);
  }
}

TEST_CASE("ranks that copy a rank which has itself just come back are near") {
  // Three come back at once. The second one copies the first, whose usual step is a copy too.
  for (const uint64_t seed : {105, 182}) {
    const Draw draw = drawn(seed, 30);
    INFO(draw.happening);
    check_healthy(draw.settings);
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

TEST_CASE("what the guard does to healthy ranks, by draws of all that happens", "[.][healthy]") {
  count_draws(1);
}

TEST_CASE("what the guard does to healthy ranks that take 30 inner steps", "[.][healthy]") {
  count_draws(30);
}

TEST_CASE("how far apart two halves end that trained without each other", "[.][measure]") {
  for (const double noise : {2.0, 0.0})
    for (const char* topology : {"ring", "complete"})
      for (const double rate : {0.02, 1.0, 10.0})
        for (const double lr : {0.05, 0.01, 0.002}) {
          if (rate * 20 / lr > 20'000) continue;  // minutes
          constexpr int kSeeds = 4;
          double guarded = 0, bare = 0;
          for (int seed = 1; seed <= kSeeds; ++seed) {
            const Settings s = halves("a2cid2", topology, rate, lr, noise);
            guarded += distance_after(s, true, seed) / kSeeds;
            bare += distance_after(s, false, seed) / kSeeds;
          }
          std::printf(
              "noise %g, %-8s  %4g exchanges a step, lr %-5g  guarded %-10.4g without %.4g\n",
              noise, topology, rate, lr, guarded, bare);
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
