// Whole runs of the methods that go by rounds, on the virtual clock: lost frames, slow ranks, ranks
// that die and come back, graphs that change, and what all of it costs.
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "messages/codec.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 12;
constexpr uint64_t kRounds = 60;

struct Case {
  const char* method;
  const char* topology = "ring";
  const char* compress = "";
  double gamma = 1;
};

const Case kCases[] = {
    {"d_psgd"},
    {"qgm"},
    {"d2", "torus:3x4"},
    {"gradient_tracking"},
    {"sgp"},
    {"noloco"},
    {"gasloc"},
    {"choco", "ring", "sign", 0.2},
    {"deepsqueeze", "ring", "quantise:8", 0.1},
    {"moniqua", "ring", "modulo:20", 0.1},
    {"powergossip", "ring", "powergossip:rank=1"},
    {"relaysgd", "chain"},
    {"relaysgd", "double-binary-trees"},
    {"relaysum_grad", "relay-tree"},
    {"relaysgd_async", "relay-tree"},
    {"all_reduce"},
};

Settings rounds_of(const Case& c) {
  Settings s = free_gossip(c.topology, kRanks, 0.05);
  s.method = c.method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = kRounds * kRanks;
  s.objective.objective = "quadratic";
  s.objective.dim = 10;
  s.objective.zeta2 = 1;
  s.objective.noise = 0.1;
  if (std::string(c.method) == "powergossip") {  // its factors are those of matrices
    s.objective.objective = "matrix";
    s.objective.rows = 4;
    s.objective.columns = 6;
  }
  s.lr = {0.02, Schedule::constant, 0};
  s.rule.compress = c.compress;
  s.rule.gamma = c.gamma;
  s.weights = std::string(c.method) == "d2" ? "lazy" : "metropolis";
  s.speed_spread = 0.2;
  REQUIRE(check(s));
  return s;
}

uint64_t gradients_of(const RunResult& run, int rank) {
  for (const WorkerReport& w : run.outcome.workers)
    if (w.rank == rank) return w.gradients;
  return 0;
}

double farthest_from_mean(const Outcome& outcome) {
  const Buffer mean = mean_parameters(outcome);
  double most = 0;
  for (const RankParameters& p : outcome.parameters)
    for (size_t k = 0; k < mean.size(); ++k)
      most = std::max(most, std::abs(p.x->vec().as<double>()[k] - mean.vec().as<double>()[k]));
  return most;
}

}  // namespace

TEST_CASE("what a method computes does not depend on frames that are lost and sent again") {
  for (const Case& c : kCases) {
    if (std::string(c.method) == "relaysgd_async") continue;  // goes on without them
    INFO(c.method << " on " << c.topology);
    Settings s = rounds_of(c);
    const RunResult whole = simulate_one(s, 3);
    s.plan.link_faults = {loss_of(FrameClass::all, 0.1)};
    const RunResult lossy = simulate_one(s, 3);
    CHECK(whole.outcome.gradients == kRounds * kRanks);
    CHECK(lossy.outcome.frames > whole.outcome.frames);
    CHECK(parameter_hash(lossy.outcome) == parameter_hash(whole.outcome));
  }
}

TEST_CASE("ranks that die, come back, and a graph that changes stop no method") {
  for (const Case& c : kCases) {
    INFO(c.method << " on " << c.topology);
    Settings s = rounds_of(c);
    s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 12.4),
                          rank_fault(RankFaultKind::restart, {7}, 21.7),
                          rank_fault(RankFaultKind::restart, {3}, 33.1)};
    s.plan.reconfigurations = {{27.3, method_named(c.method).relays ? "binary-tree" : "complete"}};
    const RunResult run = simulate_one(s, 5);
    REQUIRE_FALSE(run.outcome.failure);
    REQUIRE(run.outcome.parameters.size() == kRanks);
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(gradients_of(run, rank) == kRounds);
    CHECK(std::isfinite(consensus_distance(run.outcome)));
  }
}

TEST_CASE("all-reduce goes on with the living, who hold the same bits") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Settings s = rounds_of({"all_reduce"});
    s.rule.optimizer.momentum = 0.9;
    const double at = 10 + 0.37 * static_cast<double>(seed);
    s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, at),
                          rank_fault(RankFaultKind::kill, {4}, at + 0.01),
                          rank_fault(RankFaultKind::restart, {8}, at + 9)};
    s.plan.link_faults = {loss_of(FrameClass::all, 0.05)};
    const RunResult run = simulate_one(s, seed);
    REQUIRE(run.outcome.parameters.size() == kRanks - 2);
    CHECK(farthest_from_mean(run.outcome) < 1e-14);
    CHECK(gradients_of(run, 0) == kRounds);
  }
}

TEST_CASE("all-reduce without gradients goes on with the living, whatever optimizer is set") {
  for (const double momentum : {0.9, 0.0}) {
    Settings s = rounds_of({"all_reduce"});
    s.objective.objective = "consensus";
    s.rule.optimizer.momentum = momentum;
    s.gradients = 0;
    s.until_s = 20;
    s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 5),
                          rank_fault(RankFaultKind::restart, {8}, 9)};
    const RunResult run = simulate_one(s, 1);
    REQUIRE_FALSE(run.outcome.failure);
    REQUIRE(run.outcome.parameters.size() == kRanks - 1);
    CHECK(farthest_from_mean(run.outcome) < 1e-14);
  }
}

TEST_CASE("asynchronous RelaySGD: a rank three times slower costs the others nothing") {
  Settings s = rounds_of({"relaysgd_async", "spanning:ring"});
  s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {5})};
  s.plan.rank_faults[0].factor = 3;
  const RunResult run = simulate_one(s, 1);
  for (const WorkerReport& w : run.outcome.workers)
    if (w.rank != 5) CHECK(w.idle_s / w.alive_s < 0.02);
}

TEST_CASE("what a round costs is what the method's header says, by the counters of the frames") {
  struct Cost {
    Case what;
    uint64_t messages, payload_bytes;  // of all ranks in a round
  };
  const uint64_t n = kRanks, d = 10;
  const Cost costs[] = {
      {{"d_psgd"}, 2 * n, 2 * n * d * 8},
      {{"qgm"}, 2 * n, 2 * n * d * 8},
      {{"gradient_tracking"}, 2 * n, 2 * n * 2 * d * 8},
      {{"d2", "torus:3x4"}, 4 * n, 4 * n * d * 8},
      {{"sgp"}, 2 * n, 2 * n * (d + 1) * 8},
      {{"choco", "ring", "sign", 0.2}, 2 * n, 2 * n * (2 + 8)},
      {{"moniqua", "ring", "modulo:20", 0.1}, 2 * n, 2 * n * 3},
      {{"relaysgd", "chain"}, 2 * (n - 1), 2 * (n - 1) * (d + 1) * 8},
      {{"relaysgd_async", "chain"}, 2 * (n - 1), 2 * (n - 1) * (d + 1) * 8},
      {{"relaysum_grad", "chain"}, 2 * (n - 1), 2 * (n - 1) * (d + 1) * 8},
      {{"all_reduce"}, n * 2 * (n - 1), 2 * (n - 1) * d * 8},
  };
  for (const Cost& cost : costs) {
    INFO(cost.what.method);
    Settings s = rounds_of(cost.what);
    s.link = {};
    s.speed_spread = 0;
    const RunResult run = simulate_one(s, 1);
    const Outcome& o = run.outcome;
    CHECK(o.frames == kRounds * cost.messages);
    CHECK(o.bytes - o.frames * kHeaderBytes == kRounds * cost.payload_bytes);
  }
}
