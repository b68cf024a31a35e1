// Whole runs on both clocks: repeatable, exact, unhurt by slow and dying ranks and by a graph that
// changes while they go on.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "actors/node/observer.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

/// Quadratics with different optima, greedy gradients, free pairing, links that take time.
Settings training(const std::string& topology, int ranks, const std::string& method = "a2cid2") {
  Settings s = free_gossip(topology, ranks, 0.2);
  s.method = method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = static_cast<uint64_t>(200 * ranks);
  s.objective.objective = "diagonal";
  s.objective.dim = 8;
  s.objective.noise = 0.1;
  s.objective.zeta2 = 1;
  s.objective.mu = 0.2;
  s.lr = {0.05, Schedule::cosine, 0.05};
  s.speed_spread = 0.2;
  return s;
}

Settings on_the_wall(int ranks) {
  Settings s = training("ring", ranks);
  s.clock = Clock::wall;
  s.link = {};
  s.speed_spread = 0;
  s.objective.threads = compute_threads(s);
  return s;
}

double idle_fraction(const RunResult& r, int rank) {
  for (const WorkerReport& w : r.outcome.workers)
    if (w.rank == rank) return w.idle_s / w.alive_s;
  return NAN;
}

double distance2(const Buffer& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t k = 0; k < b.size(); ++k) {
    const double d = a.vec().as<double>()[k] - b[k];
    sum += d * d;
  }
  return sum;
}

}  // namespace

TEST_CASE("one seed gives one run, bit for bit; another seed another one") {
  Settings s = training("torus", 16);
  s.plan.link_faults = {loss_of(FrameClass::all, 0.1)};
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 40),
                        rank_fault(RankFaultKind::restart, {3}, 60)};
  const RunResult first = simulate_one(s, 1), again = simulate_one(s, 1),
                  other = simulate_one(s, 2);
  CHECK(first.event_log_hash == again.event_log_hash);
  CHECK(parameter_hash(first.outcome) == parameter_hash(again.outcome));
  CHECK(first.events == again.events);
  CHECK(first.event_log_hash != other.event_log_hash);
  CHECK(parameter_hash(first.outcome) != parameter_hash(other.outcome));
}

TEST_CASE("gradients, momentum, loss and repeated frames leave the sum of x + x~ exact") {
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    Settings s = training("exponential", 16, method);
    LinkFault twice;
    twice.kind = LinkFaultKind::repeat;
    twice.probability = 0.2;
    s.plan.link_faults = {loss_of(FrameClass::all, 0.2), twice};
    for (const RunResult& r : simulate_seeds(s, 8)) {
      CHECK(r.outcome.conserved_error < 1e-11);
      CHECK(r.outcome.counts.repeated > 0);
      CHECK(r.outcome.quiet);
      CHECK(r.outcome.gradients == s.gradients);
    }
  }
}

TEST_CASE("models sent in bf16 are half the bytes, keep the sum exact, and training succeeds") {
  for (const auto& [method, compress] :
       {std::pair("a2cid2", ""), {"a2cid2", "random:0.5"}, {"ad_psgd", ""}}) {
    Settings s = training("ring", 8, method);
    s.rule.compress = compress;
    s.objective.dim = 512;
    s.objective.noise = 0;
    s.plan.link_faults = {loss_of(FrameClass::all, 0.1)};
    const auto bytes_of = [](const RunResult& r) {
      return static_cast<double>(r.outcome.bytes) / static_cast<double>(r.outcome.exchanges);
    };
    const RunResult full = simulate_one(s, 1);
    s.rule.wire = Wire::bf16;
    const RunResult r = simulate_one(s, 1);
    INFO(method << " " << compress);
    CHECK(r.outcome.conserved_error < 1e-11);
    CHECK(r.outcome.quiet);
    CHECK(r.outcome.gradients == s.gradients);
    CHECK(bytes_of(r) < 0.4 * bytes_of(full));  // the objective's numbers are fp64: a quarter
    s.objective.ranks = s.ranks;
    s.objective.seed = 1;
    const auto objective = make_objective(s.objective);
    CHECK((*objective)->evaluate(0, -1, mean_parameters(r.outcome)).loss < 1e-3);
  }
}

TEST_CASE("training finds the optimum of the average, whatever each rank's own is") {
  for (const char* method : {"a2cid2", "ad_psgd", "all_reduce"}) {
    Settings s = training("ring", 16, method);
    s.objective.noise = 0;
    s.objective.ranks = s.ranks;
    const RunResult r = simulate_one(s, 1);
    s.objective.seed = 1;
    auto objective = make_objective(s.objective);
    INFO(method);
    CHECK((*objective)->evaluate(0, -1, mean_parameters(r.outcome)).loss < 1e-3);
  }
}

TEST_CASE("all-reduce leaves every rank with the same bits") {
  Settings s = training("ring", 7, "all_reduce");
  s.plan.link_faults = {loss_of(FrameClass::all, 0.1)};
  const RunResult r = simulate_one(s, 1);
  CHECK(r.outcome.gradients == s.gradients);
  for (const RankParameters& p : r.outcome.parameters) {
    const ConstVec x = std::as_const(*p.x).vec(), first = r.outcome.parameters[0].x->vec();
    CHECK(std::memcmp(x.data, first.data, x.bytes()) == 0);
  }
}

TEST_CASE("a rank three times slower costs the others nothing; all-reduce it costs two thirds") {
  Settings s = training("ring", 16);
  s.speed_spread = 0;
  RankFault slow = rank_fault(RankFaultKind::slow, {5});
  slow.factor = 3;
  s.plan.rank_faults = {slow};
  s.gradients = 0;
  s.until_s = 300;
  const RunResult gossiping = simulate_one(s, 1);
  s.method = "all_reduce";
  s.link = {};
  const RunResult waiting = simulate_one(s, 1);
  for (int rank = 0; rank < 16; ++rank) {
    if (rank == 5) continue;
    CHECK(idle_fraction(gossiping, rank) < 0.02);
    CHECK(idle_fraction(waiting, rank) == Approx(2.0 / 3).margin(0.02));
  }
}

TEST_CASE("a star does not collapse: its ranks compute as fast as without gossip") {
  Settings s = training("star", 16);
  s.gradients = 0;
  s.until_s = 300;
  const RunResult star = simulate_one(s, 1);
  s.rate = 1e-9;
  const RunResult alone = simulate_one(s, 1);
  CHECK(alone.outcome.exchanges == 0);
  CHECK(static_cast<double>(star.outcome.gradients) >=
        0.95 * static_cast<double>(alone.outcome.gradients));
}

TEST_CASE("a graph that changes under load loses no step and no exchange") {
  Settings s = training("ring", 16);
  s.plan.reconfigurations = {{50, "exponential"}, {100, "ring"}};
  std::vector<EpochInfo> epochs;
  RunHooks hooks;
  hooks.sink.on_epoch = [&](const EpochInfo& e) { epochs.push_back(e); };
  const RunResult r = simulate_one(s, 1, hooks);
  REQUIRE(epochs.size() == 3);
  CHECK(epochs[1].topology == "exponential");
  CHECK(epochs[1].chi1 < epochs[0].chi1 / 3);
  CHECK(epochs[2].eta == Approx(epochs[0].eta).epsilon(0.3));  // rates are measured by then
  CHECK(r.outcome.gradients == s.gradients);
  CHECK(r.outcome.quiet);
  CHECK(r.outcome.counts.broken_before + r.outcome.counts.broken_after == 0);
  CHECK(r.outcome.conserved_error < 1e-11);
  for (int rank = 0; rank < 16; ++rank)
    CHECK(idle_fraction(r, rank) < 1e-6);
  std::set<std::pair<int, int>> met;  // both ends of every edge counted the same exchanges
  for (const CommunicatorReport& c : r.outcome.communicators) {
    for (const EdgeCount& e : c.edges) {
      const auto& peers = r.outcome.communicators[static_cast<size_t>(e.peer)].edges;
      const auto back = std::find_if(peers.begin(), peers.end(),
                                     [&](const EdgeCount& o) { return o.peer == c.rank; });
      REQUIRE(back != peers.end());
      CHECK(back->applied == e.applied);
    }
  }
}

TEST_CASE("a rank killed and restarted comes back near its neighbours, the others unhurt") {
  Settings s = training("ring", 16);
  s.objective.noise = 1;
  s.lr = {0.05, Schedule::constant, 0};
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 60),
                        rank_fault(RankFaultKind::restart, {3}, 80)};
  s.gradients = 0;
  s.until_s = 92;  // some ten exchanges after its return
  double restarted = 0, others = 0;
  for (const RunResult& r : simulate_seeds(s, 8)) {
    REQUIRE(r.outcome.parameters.size() == 16);
    for (int rank = 0; rank < 16; ++rank) {
      std::vector<double> mean(8);
      for (const int step : {15, 1}) {
        const ConstVec x = r.outcome.parameters[static_cast<size_t>((rank + step) % 16)].x->vec();
        for (size_t k = 0; k < 8; ++k)
          mean[k] += x.as<double>()[k] / 2;
      }
      const double d = distance2(*r.outcome.parameters[static_cast<size_t>(rank)].x, mean);
      (rank == 3 ? restarted : others) += rank == 3 ? d : d / 15;
      if (rank != 3) CHECK(idle_fraction(r, rank) < 1e-6);
    }
    CHECK(r.outcome.counts.protocol_errors == 0);
  }
  CHECK(restarted <= 3 * others);
}

TEST_CASE("a paused rank is left alone and catches up when it comes back") {
  Settings s = training("complete", 8);
  RankFault pause = rank_fault(RankFaultKind::pause, {2}, 30);
  pause.until = 60;
  s.plan.rank_faults = {pause};
  const RunResult r = simulate_one(s, 1);
  CHECK(r.outcome.gradients == s.gradients);
  CHECK(r.outcome.conserved_error < 1e-11);
  for (int rank = 0; rank < 8; ++rank)
    if (rank != 2) CHECK(idle_fraction(r, rank) < 1e-6);
}

TEST_CASE("where the network takes no time, silence costs some frames a second") {
  RankFault pause = rank_fault(RankFaultKind::pause, {2}, 1);
  pause.until = 9;
  LinkFault cut = loss_of(FrameClass::all, 1);
  cut.links = {{2, 3}};
  cut.at = 1;
  cut.until = 9;
  LinkFault all = loss_of(FrameClass::all, 1);
  all.at = 1;
  const Plan plans[] = {{{pause}, {}, {}}, {{}, {cut}, {}}, {{}, {all}, {}}};
  for (const Plan& plan : plans) {
    for (const Pairing pairing : {Pairing::free, Pairing::poisson}) {
      Settings s = gossip("ring", 8);
      s.pairing = pairing;
      s.target = 0;
      s.until_s = 10;
      s.plan = plan;
      const RunResult r = simulate_one(s, 1);
      CHECK(r.outcome.frames > 100u);
      CHECK(r.outcome.frames < 8 * 10 * 100u);
    }
  }
}

TEST_CASE("a loss that is not finite ends the run with one line") {
  Settings s = training("ring", 4);
  s.objective.mu = 1;
  s.lr = {1e200, Schedule::constant, 0};
  const RunResult r = simulate_one(s, 1);
  REQUIRE(r.outcome.failure.has_value());
  CHECK(r.outcome.failure->exit_status() == 1);
  CHECK(r.outcome.failure->message.find("accepted: a finite one") != std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose heap is another
TEST_CASE("of 16,384 ranks of a ring each costs at most 3 KiB beside its vectors") {
  constexpr double kQueueAndGraph = 200;  // of the clock and the manager: no actor, no edge's end
  const double bytes = bytes_per_rank(16384);
  CAPTURE(bytes);
  CHECK(bytes <= 3072 + kQueueAndGraph);
}
#endif

TEST_CASE("under the wall clock every rank takes its gradients, through kills and new graphs") {
  Settings s = on_the_wall(8);
  s.gradients = 8 * 20000;
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 0.05),
                        rank_fault(RankFaultKind::restart, {3}, 0.1)};
  s.plan.reconfigurations = {{0.07, "complete"}, {0.15, "star"}};
  std::vector<std::string> events;
  RunHooks hooks;
  hooks.sink.on_event = [&](const std::string& line) { events.push_back(line); };
  const RunResult r = simulate_one(s, 1, hooks);
  CHECK_FALSE(r.outcome.failure.has_value());
  CHECK(events.size() == 2);
  CHECK(r.outcome.workers.size() == 8);
  for (const WorkerReport& w : r.outcome.workers)
    CHECK(w.gradients == 20000);
  CHECK(r.outcome.quiet);
  CHECK(r.outcome.exchanges > 0);
  CHECK(r.outcome.counts.protocol_errors == 0);
}

TEST_CASE("under the wall clock a rank that stands still is an alarm until it goes on") {
  Settings s = on_the_wall(4);
  s.gradients = 0;
  s.until_s = 60;  // where no alarm comes
  s.alarm_s = 0.2;
  s.plan.rank_faults = {RankFault{RankFaultKind::pause, {2}, 0.5, 1.5}};
  std::atomic<int> interrupts{0};
  std::vector<Alarm> stands, goes_on;
  std::vector<std::string> events;
  RunHooks hooks;
  hooks.interrupts = &interrupts;
  hooks.sink.on_event = [&](const std::string& line) { events.push_back(line); };
  hooks.sink.on_alarm = [&](const Alarm& alarm) {
    if (alarm.what != Alarm::What::silent_edge || (alarm.rank != 2 && alarm.peer != 2)) return;
    (alarm.over ? goes_on : stands).push_back(alarm);
    if (!goes_on.empty()) interrupts = 1;
  };
  const RunResult r = simulate_one(s, 1, hooks);
  CHECK_FALSE(r.outcome.failure);
  REQUIRE_FALSE(stands.empty());
  REQUIRE_FALSE(goes_on.empty());
  CHECK(stands.front().at_s >= 0.2);
  CHECK(goes_on.front().at_s > stands.front().at_s);
  CHECK(std::find(events.begin(), events.end(), kAlarm + stands.front().line()) != events.end());
  CHECK(std::find(events.begin(), events.end(), kAlarmOver + goes_on.front().line()) !=
        events.end());
}

TEST_CASE("samples of a small model keep their period, those of a large one are rarer") {
  CHECK(gap_between_samples(1, 1e-4) == 1);
  CHECK(gap_between_samples(1, 0.1) == 10);  // some 10 M parameters
  CHECK(gap_between_samples(60, 0.1) == 60);
}

TEST_CASE("a loss that is no number is an alarm that names the rank, under either clock") {
  for (const Clock clock : {Clock::wall, Clock::simulated}) {
    Settings s = on_the_wall(4);
    s.clock = clock;
    s.lr.peak = 1e9;
    s.gradients = 100000;
    std::vector<Alarm> alarms;
    RunHooks hooks;
    hooks.sink.on_alarm = [&](const Alarm& alarm) {
      if (alarm.what == Alarm::What::divergence && alarm.rank >= 0) alarms.push_back(alarm);
    };
    const RunResult r = simulate_one(s, 1, hooks);
    REQUIRE(r.outcome.failure);
    CHECK(r.outcome.failure->kind == Error::Kind::world);
    CHECK(r.outcome.alarm);
    REQUIRE(alarms.size() == 1);
    CHECK_THAT(alarms[0].line(), Catch::Contains(" has a loss of "));
  }
}

TEST_CASE("a finish asked for from outside drains and keeps what was computed") {
  Settings s = on_the_wall(4);
  s.gradients = 0;
  std::atomic<int> interrupts{1};
  RunHooks hooks;
  hooks.interrupts = &interrupts;
  const RunResult r = simulate_one(s, 1, hooks);
  CHECK(r.outcome.quiet);
  CHECK(r.outcome.parameters.size() == 4);
}
