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
  Wire wire = Wire::full;
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
    {"choco", "ring", "complete", "top-k:0.3"},
    {"choco", "ring", "complete", "random-k:0.3"},
    {"choco", "ring", "complete", "sign"},
    {"deepsqueeze", "ring", "complete", "quantise:6"},
    {"deepsqueeze", "ring", "complete", "low-rank:1"},
    {"moniqua", "ring", "complete", "modulo:4"},
    {"powergossip", "ring", "complete", "powergossip:rank=2,iterations=2"},
    {"powergossip", "ring", "star", "powergossip:start=cold"},
    {"a2cid2", "ring", "complete", "powergossip:rank=2"},
    {"ad_psgd", "ring", "star", "powergossip:rank=1"},
    {"a2cid2", "ring", "complete", "", Wire::bf16},
    {"ad_psgd", "ring", "star", "", Wire::bf16},
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
  s.rule.wire = r.wire;
  if (method_named(r.method).pattern == Pattern::rounds && !s.rule.compress.empty())
    s.rule.gamma = s.method == "moniqua" ? 0.02 : 0.3;
  s.rule.optimizer.momentum = 0.9;
  if (s.rule.compress.find("rank") != std::string::npos) {  // of a tensor, which has no gradients
    s.objective.objective = "matrix";
    s.objective.rows = 7;
    s.objective.columns = 6;
    s.gradients = 0;
    s.until_s = 30;
  }
  s.speed_spread = 0.2;
  s.plan.link_faults = {loss_of(FrameClass::all, 0.05)};
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {2}, 8),
                        rank_fault(RankFaultKind::restart, {2}, 15)};
  s.plan.rank_faults.push_back(rank_fault(RankFaultKind::pause, {4}, 5));
  s.plan.rank_faults.back().until = 7;
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
    RunDevice device(1);
    const RunResult there = *simulate_on(device, s, 1);
    CHECK(there.events == host.events);
    CHECK(there.outcome.exchanges == host.outcome.exchanges);
    CHECK(there.outcome.bytes == host.outcome.bytes);
    CHECK(parameter_hash(there.outcome) == parameter_hash(host.outcome));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("a run on a device that is late loses nothing, whatever its work is behind") {
  for (const Run& r : kRuns) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(r.method << " on " << r.topology << ", seed " << seed);
      Settings s = settings_of(r);
      if (s.gradients == 0) continue;  // no worker comes, and with it no time of the device's
      s.plan.rank_faults.erase(s.plan.rank_faults.begin(), s.plan.rank_faults.begin() + 2);
      RunDevice device(seed, RunDevice::Pace::late);
      RunHooks hooks;
      hooks.make_worker = on_late(device);
      const RunResult there = *simulate_on(device, s, seed, hooks);
      CHECK(there.outcome.gradients >= s.gradients);
      if (method_named(r.method).pattern == Pattern::pairwise)
        CHECK(there.outcome.conserved_error <= 1e-9);
      CHECK(device.world().judge().findings() == std::set<std::string>());
    }
  }
}

// Not found is what orders a lane behind whoever has read its gradient slot before: on the virtual
// clock a gradient begins in the instant in which its copy of x is made, and that copy is behind
// every step so far. Between threads it may begin later.
TEST_CASE("what orders a state actor's work on a device is found out where it is left out") {
  for (const Run& r : {kRuns[0], kRuns[2], kRuns[8]}) {
    Settings s = settings_of(r);
    s.speed_spread = 0;  // what many ranks do at once is hardest to order
    RunDevice whole(1);
    REQUIRE(simulate_on(whole, s, 1));
    CHECK(whole.world().sites.size() >= 8);
    std::vector<std::string> unnoticed;
    for (const auto& [site, count] : whole.world().sites) {
      bool found = site.second.find("on_adversary") != std::string::npos;  // ours
      for (uint64_t seed = 1; seed <= 5 && !found; ++seed) {
        RunDevice device(seed);
        device.world().left_out = site;
        static_cast<void>(simulate_on(device, s, seed));
        found = !device.world().judge().findings().empty();
      }
      if (!found) unnoticed.push_back(site.first + " at " + site.second);
    }
    CAPTURE(r.method, unnoticed);
    CHECK(unnoticed.size() <= 2);
    for (const std::string& site : unnoticed)
      CHECK((site.starts_with("wait at lane_gradient.cpp") || site.starts_with("record at state.cpp")));
  }
}

TEST_CASE("a device that is lost ends the run with a sentence, whichever call it fails at") {
  const Run& r = kRuns[0];
  uint64_t calls = 0;
  {
    RunDevice device(1);
    CHECK(simulate_on(device, settings_of(r), 1));
    calls = device.adversary().calls;
  }
  for (uint64_t k = 1; k < calls; k += 1 + calls / 60) {
    RunDevice device(1);
    device.adversary().fail_call = k;
    INFO("call " << k << " of " << calls);
    const auto result = simulate_on(device, settings_of(r), 1);
    REQUIRE(!result);
    CHECK((result.error().message.find("is lost") != std::string::npos ||
           result.error().message.find("too little memory") != std::string::npos));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}
