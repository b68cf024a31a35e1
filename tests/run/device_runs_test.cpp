// Whole runs whose ranks live on a device: the adversary, which does all that a GPU may do.
#include "actors/algorithms/method_registry.hpp"
#include "tests/catch.hpp"
#include "tests/run/on_adversary.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr int kRanks = 6;

struct Run {
  const char *method, *topology, *later, *compress;
};

constexpr Run kRuns[] = {
    {"a2cid2", "ring", "complete", ""},
    {"ad_psgd", "ring", "star", ""},
    {"all_reduce", "ring", "complete", ""},
    {"d_psgd", "complete", "ring", ""},
    {"qgm", "ring", "complete", ""},
    {"d2", "ring", "complete", ""},
    {"gradient_tracking", "ring", "star", ""},
    {"sgp", "ring", "complete", ""},
    {"relaysgd", "binary-tree", "chain", ""},
    {"relaysgd", "double-binary-trees", "chain", ""},
    {"relaysum_grad", "chain", "binary-tree", ""},
    {"relaysgd_async", "chain", "binary-tree", ""},
    {"mean_estimation", "chain", "binary-tree", ""},
};

/// Latency, loss, a rank that dies and comes back, another graph.
Settings settings_of(const Run& r) {
  Settings s = free_gossip(r.topology, kRanks, 0.2);
  s.method = r.method;
  if (s.method == "d2") s.weights = "lazy";
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = 30 * kRanks;
  s.sample_s = 5;
  s.objective.objective = "quadratic";
  s.objective.dim = 20;
  s.objective.noise = 0.1;
  s.objective.zeta2 = 1;
  s.lr = {0.02, Schedule::cosine, 0.1};
  s.rule.compress = r.compress;
  s.rule.optimizer.momentum = 0.9;
  s.speed_spread = 0.2;
  s.plan.link_faults = {loss_of(FrameClass::all, 0.05)};
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {2}, 8),
                        rank_fault(RankFaultKind::restart, {2}, 15)};
  s.plan.reconfigurations = {{12, r.later}};
  return s;
}

}  // namespace

TEST_CASE("a run on a device has the events and the bits of the same run in the host's memory") {
  for (const Run& r : kRuns) {
    const Settings s = settings_of(r);
    const Status possible = check(s);
    INFO(r.method << " on " << r.topology << " "
                  << (possible ? std::string() : possible.error().message));
    REQUIRE(possible);
    const RunResult host = simulate_one(s, 1);
    Prompt device(1);
    const RunResult there = simulate_on(device, s, 1);
    CHECK(there.events == host.events);
    CHECK(there.outcome.exchanges == host.outcome.exchanges);
    CHECK(there.outcome.bytes == host.outcome.bytes);
    CHECK(parameter_hash(there.outcome) == parameter_hash(host.outcome));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}
