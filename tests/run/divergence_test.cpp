// One rank whose steps diverge poisons nobody, and a run whose ranks all drift apart says so.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "actors/algorithms/method_registry.hpp"
#include "actors/node/observer.hpp"
#include "actors/rank/worker.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 8;
constexpr int kWild = 3;  // the rank with the huge steps

struct Case {
  const char* method;
  const char* topology = "complete";
  const char* compress = "";
  double gamma = 1;
};

const Case kCases[] = {
    {"a2cid2"},
    {"a2cid2", "ring"},
    {"a2cid2", "complete", "powergossip:rank=1"},
    {"ad_psgd"},
    {"d_psgd"},
    {"qgm"},
    {"d2", "torus:2x4"},
    {"gradient_tracking"},
    {"sgp"},
    {"choco", "ring", "sign", 0.2},
    {"deepsqueeze", "ring", "quantise:8", 0.1},
    {"powergossip", "ring", "powergossip:rank=1"},
    {"relaysgd", "chain"},
    {"relaysgd", "relay-tree"},
    {"relaysgd_async", "relay-tree"},
    {"relaysum_grad", "relay-tree"},
    {"relaysum_grad", "chain"},
    {"all_reduce"},
};

Settings settings_of(const Case& c) {
  Settings s = free_gossip(c.topology, kRanks, 0.05);
  s.method = c.method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.gradients = 0;
  s.until_s = 150;
  s.objective.objective = "quadratic";
  s.objective.dim = 10;
  s.objective.zeta2 = 0.1;
  s.objective.noise = 0.1;
  s.lr = {0.05, Schedule::constant, 0};
  s.rule.optimizer = {};
  s.rule.compress = c.compress;
  s.rule.gamma = c.gamma;
  s.weights = std::string(c.method) == "d2" ? "lazy" : "metropolis";
  const Status possible = check(s);
  INFO(c.method << ": " << (possible ? "" : possible.error().message));
  REQUIRE(possible);
  return s;
}

/// A worker of rank kWild whose learning rate is `factor` times that of the others.
MakeWorker wild(double factor) {
  return [factor](caf::actor_system& system, WorkerDependencies deps) {
    if (deps.rank == kWild) {
      auto own = std::make_shared<Settings>(*deps.settings);
      own->lr.peak *= factor;
      deps.settings = std::move(own);
    }
    return spawn_worker(system, std::move(deps));
  };
}

/// An analytic objective, except that the gradients of a rank contain `poison` from the 20th one
/// on. Its losses are finite, so its own node does not end.
class Poisoned final : public Objective {
 public:
  Poisoned(std::shared_ptr<Objective> sound, double poison)
      : sound_(std::move(sound)), poison_(poison) {}
  const ParameterLayout& layout() const override { return sound_->layout(); }
  void initial_point(int rank, Vec x) const override { sound_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    sound_->gradient(thread, rank, index, x, g);
    if (rank == kWild && index >= 20) g.as<double>()[index % g.size] = poison_;
    return 1;
  }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "poisoned"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  std::shared_ptr<Objective> sound_;
  double poison_;
};

RunResult poisoned(const Settings& s, double poison, RunHooks hooks = {}) {
  auto sound = make_objective(s);
  REQUIRE(sound);
  auto result = run(s, std::make_shared<Poisoned>(*sound, poison), std::move(hooks));
  REQUIRE(result);
  return std::move(*result);
}

double norm_of(const RunResult& r, int rank) {
  double squares = 0;
  for (const RankParameters& p : r.outcome.parameters) {
    if (p.rank != rank) continue;
    const ConstVec x = std::as_const(*p.x).vec();
    for (size_t k = 0; k < x.size; ++k)
      squares += x.as<double>()[k] * x.as<double>()[k];
  }
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("one rank of eight with huge steps leaves the others where they would be without it") {
  for (const Case& c : kCases) {
    const Settings s = settings_of(c);
    const RunResult calm = simulate_one(s, 1);
    RunHooks hooks;
    hooks.make_worker = wild(2000);
    const RunResult r = simulate_one(s, 1, hooks);
    INFO(c.method << " on " << c.topology << ", compress \"" << c.compress << "\": clipped "
                  << r.outcome.counts.clipped << ", wild " << norm_of(r, kWild) << ", rank 0 "
                  << norm_of(r, 0) << ", calm " << norm_of(calm, 0));
    CHECK(calm.outcome.counts.clipped == 0u);
    CHECK(r.outcome.counts.clipped + r.outcome.counts.not_finite > 0u);
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != kWild) CHECK(norm_of(r, rank) < 10 * norm_of(calm, rank) + 10);
  }
}

TEST_CASE("both ends of an exchange scale their jumps alike, and the sum of x + x~ stays") {
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    Settings s = settings_of({method});
    s.until_s = 60;
    RunHooks hooks;
    hooks.make_worker = wild(2000);
    const RunResult r = simulate_one(s, 2, hooks);
    std::map<std::pair<int, int>, std::pair<uint64_t, uint64_t>> judged;
    for (const CommunicatorReport& c : r.outcome.communicators)
      for (const EdgeCount& e : c.edges)
        judged[{c.rank, e.peer}] = {e.clipped, e.not_finite};
    uint64_t all = 0;
    for (const auto& [edge, counts] : judged) {
      const auto there = judged[{edge.second, edge.first}];
      CHECK(counts == there);
      all += counts.first;
      if (counts.first > 0) CHECK((edge.first == kWild || edge.second == kWild));
    }
    CHECK(all > 0u);
    CHECK(r.outcome.conserved_error < 1e-9 * (1 + norm_of(r, kWild)));
  }
}

TEST_CASE("numbers that are not finite move nobody: what has them is counted, and in rounds lost") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Case& c : kCases) {
    for (const double poison : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
      Settings s = settings_of(c);
      s.sample_s = 0;  // else the run ends at once: its mean is no number
      s.until_s = 60;
      const RunResult r = poisoned(s, poison);
      const Counts& all = r.outcome.counts;
      INFO(c.method << " on " << c.topology << ", compress \"" << c.compress << "\", " << poison
                    << ": not finite " << all.not_finite << ", lost " << all.lost);
      for (int rank = 0; rank < kRanks; ++rank)
        if (rank != kWild) CHECK(std::isfinite(norm_of(r, rank)));
      // Its codes have no word for what is no number: what it sends stays near the others.
      const bool sends_none = std::string(c.method) == "deepsqueeze" && std::isnan(poison);
      if (!sends_none) CHECK(all.not_finite > 0u);
      if (method_named(s.method).pattern == Pattern::rounds) CHECK(all.lost >= all.not_finite);
      for (const CommunicatorReport& report : r.outcome.communicators)
        for (const EdgeCount& e : report.edges)
          if (e.not_finite > 0) CHECK((report.rank == kWild || e.peer == kWild));
    }
  }
}

TEST_CASE("an exchange with a payload that is not finite moves neither end, and is named") {
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    for (const double poison :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Settings s = settings_of({method});
      s.sample_s = 0;
      s.until_s = 60;
      const RunResult r = poisoned(s, poison);
      std::map<std::pair<int, int>, const EdgeCount*> ends;
      for (const CommunicatorReport& c : r.outcome.communicators)
        for (const EdgeCount& e : c.edges)
          ends[{c.rank, e.peer}] = &e;
      uint64_t not_finite = 0;
      for (const auto& [edge, end] : ends) {
        const auto other = ends.find({edge.second, edge.first});
        REQUIRE(other != ends.end());
        CHECK(end->not_finite == other->second->not_finite);
        CHECK(end->applied == other->second->applied);  // the number is finished either way
        not_finite += end->not_finite;
      }
      CHECK(not_finite >= 2 * (kRanks - 1));  // every neighbour has met it
      s.sample_s = 10;
      std::vector<Alarm> alarms;
      RunHooks hooks;
      hooks.sink.on_alarm = [&](const Alarm& alarm) { alarms.push_back(alarm); };
      poisoned(s, poison, std::move(hooks));
      const auto named = std::find_if(alarms.begin(), alarms.end(), [](const Alarm& alarm) {
        return alarm.what == Alarm::What::far_edge;
      });
      REQUIRE(named != alarms.end());
      CHECK((named->rank == kWild || named->peer == kWild));  // either end may be first to say so
      CHECK_THAT(named->is, Catch::Contains("NaN or infinity"));
    }
  }
}

TEST_CASE("Poisson exchanges that overlap diverge, and the run ends with the reason and a remedy") {
  Settings s = gossip("ring", 30);
  s.link.latency_s = 0.4;
  s.target = 0;
  s.until_s = 200;
  s.sample_s = 1;
  std::vector<std::string> lines;
  RunHooks hooks;
  hooks.sink.on_event = [&](const std::string& line) { lines.push_back(line); };
  const RunResult r = simulate_one(s, 1, hooks);
  REQUIRE(r.outcome.alarm);
  REQUIRE(r.outcome.failure);
  CHECK(r.outcome.failure->exit_status() == 1);
  CHECK(r.outcome.seconds < 200);
  CHECK_THAT(r.outcome.failure->message, Catch::Contains("exchanges overlap"));
  CHECK_THAT(r.outcome.failure->message, Catch::Contains("0.4 s"));
  CHECK_THAT(r.outcome.failure->message, Catch::Contains("--pairing free"));
  CHECK(std::find(lines.begin(), lines.end(), kAlarm + r.outcome.failure->message) != lines.end());
  s.sample_s = 0;  // then the run looks at how it has ended
  const RunResult unseen = simulate_one(s, 1);
  REQUIRE(unseen.outcome.alarm);
  REQUIRE(unseen.outcome.failure);
  CHECK(unseen.outcome.failure->exit_status() == 1);
  CHECK_THAT(unseen.outcome.failure->message, Catch::Contains("--pairing free"));
  s.pairing = Pairing::free;
  const RunResult sound = simulate_one(s, 1);
  CHECK_FALSE(sound.outcome.alarm);
  CHECK_FALSE(sound.outcome.failure);
}

TEST_CASE("distances that swing, return, or grow with what ranks have moved by, raise no alarm") {
  const auto apart = [](double distance, double moved) {
    Sizes sizes;
    sizes.distance = distance;
    sizes.moved = moved;
    return sizes;
  };
  DivergenceWatch swings, moves, rests, drifts, infinite;
  for (int k = 0; k < 100; ++k) {
    CHECK(swings.sees(apart(k % 4 == 0 ? 1e9 : 1, 0)) == "");
    CHECK(moves.sees(apart(std::pow(2.0, k), std::pow(2.0, k - 10))) == "");
    CHECK(rests.sees(apart(k % 3 == 0 ? 1 : std::pow(2.0, k), 1)) == "");
  }
  int seen = 0;
  for (int k = 0; k < 100; ++k)
    seen += drifts.sees(apart(std::pow(2.0, k), 1)) != "";
  CHECK(seen == 100 - 22);
  CHECK(infinite.sees(apart(std::nan(""), 0)) != "");
}

TEST_CASE("with local steps the ranks trade messages after every fourth step alone, and agree") {
  Settings s = settings_of({"d_psgd", "ring"});
  s.until_s = 0;
  s.gradients = 80 * kRanks;
  const RunResult always = simulate_one(s, 1);
  s.inner_steps = 4;
  s.outer_lr = 1, s.outer_momentum = 0;
  const RunResult r = simulate_one(s, 1);
  CHECK(always.outcome.frames == 80u * kRanks * 2);
  CHECK(r.outcome.frames == 20u * kRanks * 2);
  for (const WorkerReport& w : r.outcome.workers)
    CHECK(w.gradients == 80u);
  for (int rank = 0; rank < kRanks; ++rank)
    CHECK(norm_of(r, rank) == Approx(norm_of(always, rank)).epsilon(0.3));
}

TEST_CASE("a jump whose other half may be missing has a size") {
  uint64_t broken = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Settings s = settings_of({"a2cid2", "ring"});
    s.until_s = 40;
    s.link.transfer_s = 0.5;
    s.plan.link_faults = {loss_of(FrameClass::all, 0.2)};
    s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {2}, 20 + 0.1 * seed)};
    const RunResult r = simulate_one(s, seed);
    CHECK((r.outcome.broken_after_norm > 0) == (r.outcome.counts.broken_after > 0));
    broken += r.outcome.counts.broken_after;
  }
  CHECK(broken > 0u);
}
