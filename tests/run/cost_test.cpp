// The use of a run's time on the virtual clock, where it is known beforehand.
#include <caf/scoped_actor.hpp>
#include <chrono>
#include <cmath>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/run/site.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 8;
constexpr uint64_t kWork = 800;

Settings work(Share share, const char* method = "a2cid2") {
  return at_work(kRanks, kWork, method, share);
}

double part_of(const Cost& cost, Part p) { return cost.parts[static_cast<size_t>(p)]; }

Cost cost_of_run(const Settings& s) {
  const RunResult r = simulate_one(s, 1);
  REQUIRE(r.outcome.costs.size() == static_cast<size_t>(s.ranks));
  const Cost cost = cost_of(r.outcome.costs);
  double sum = cost.faults_s;
  for (const double seconds : cost.parts)
    sum += seconds;
  CHECK(sum == Approx(cost.seconds));
  CHECK(cost.seconds >= r.outcome.seconds - 1e-6);
  for (const RankCost& rank : r.outcome.costs) {  // each second of each rank, once
    double seconds = 0;
    for (const double part : rank.seconds)
      seconds += part;
    for (const LostTime& lost : rank.lost)
      seconds += lost.seconds;
    CHECK(seconds == Approx(cost.seconds));
  }
  CHECK(cost.steps == static_cast<double>(r.outcome.gradients));
  return cost;
}

}  // namespace

TEST_CASE("ranks that never wait are at work for all of the run but its start and its end") {
  const Cost cost = cost_of_run(work(Share::pool));
  CHECK(cost.speed == Approx(kRanks));
  CHECK(part_of(cost, Part::work) == Approx(100).epsilon(0.01));
  CHECK(cost.efficiency() > 0.98);
  CHECK(part_of(cost, Part::contention) + part_of(cost, Part::exchanges) < 1e-6);
  CHECK(cost.lost.empty());
}

TEST_CASE("a pause and a kill are each named with what they cost") {
  Settings s = work(Share::pool);
  s.gradient_s = 0.1;
  s.gradients = 10 * kWork;
  RankFault pause = rank_fault(RankFaultKind::pause, {2}, 20);
  pause.until = 25;
  s.plan.rank_faults = {pause, rank_fault(RankFaultKind::kill, {5}, 33)};
  const Cost cost = cost_of_run(s);
  REQUIRE(cost.lost.size() == 2);
  const LostTime &paused = cost.lost[0], &killed = cost.lost[1];
  CHECK(paused.what == Lost::pause);
  CHECK(paused.rank == 2);
  CHECK(paused.at_s == Approx(20));
  CHECK(paused.until_s == Approx(25));
  CHECK(paused.seconds == Approx(5).epsilon(0.03));
  CHECK(paused.steps == Approx(50).epsilon(0.03));
  CHECK(killed.what == Lost::kill);
  CHECK(killed.rank == 5);
  CHECK(killed.at_s == Approx(33));
  CHECK(killed.seconds == Approx(cost.seconds - 33).epsilon(0.01));
  CHECK(killed.steps == Approx(10 * killed.seconds));
  CHECK(cost.faults_s == Approx((paused.seconds + killed.seconds) / kRanks));
  CHECK(cost.efficiency() > 0.98);
}

TEST_CASE("a rank that comes back has lost the time until it computes again") {
  Settings s = work(Share::pool);
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {5}, 30.5),
                        rank_fault(RankFaultKind::restart, {5}, 40)};
  const Cost cost = cost_of_run(s);
  REQUIRE(cost.lost.size() == 1);
  CHECK(cost.lost[0].seconds >= 9.5);
  CHECK(cost.lost[0].seconds < 13);  // with the step under way, and its first moment is drawn
  CHECK(cost.efficiency() > 0.97);
}

TEST_CASE("equal shares and rounds show the slowest rank as waiting, a pool does not") {
  for (const char* method : {"a2cid2", "d_psgd", "all_reduce"}) {
    INFO(method);
    Settings s = work(Share::equal, method);
    s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3}, 0)};
    s.plan.rank_faults[0].factor = 4;
    const Cost cost = cost_of_run(s);
    CHECK(cost.speed == Approx(7.25));
    CHECK(part_of(cost, Part::work) == Approx(kWork / 7.25).epsilon(0.01));
    CHECK(cost.seconds > 399);  // of the slowest rank; all_reduce has its transfers beside
    CHECK(part_of(cost, Part::waiting) == Approx(cost.seconds - kWork / 7.25).epsilon(0.05));
    CHECK(cost.efficiency() == Approx(kWork / 7.25 / cost.seconds).epsilon(0.05));
  }
  Settings s = work(Share::pool);
  s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3}, 0)};
  s.plan.rank_faults[0].factor = 4;
  CHECK(cost_of_run(s).efficiency() > 0.97);
}

TEST_CASE("a rank that is slow for a while has contention, and its speed is that of the rest") {
  Settings s = work(Share::pool);
  RankFault slow = rank_fault(RankFaultKind::slow, {3}, 20);
  slow.until = 60;
  slow.factor = 4;
  s.plan.rank_faults = {slow};
  const Cost cost = cost_of_run(s);
  CHECK(cost.speed == Approx(kRanks));
  CHECK(part_of(cost, Part::contention) == Approx(30.0 / kRanks).epsilon(0.1));
}

TEST_CASE("a disk that the end waits for is saving, and keeps no step from being one") {
  constexpr int kDisk_s = 20;
  VirtualConfig config(std::make_shared<VirtualClock>());
  caf::actor_system system(config);
  const RunClock clock(system);
  caf::scoped_actor self(system);
  const auto pass = [&](int seconds) {
    self->delayed_send(self, std::chrono::seconds(seconds), caf::unit);
    VirtualScheduler::of(system).step();
  };
  Ledgers ledgers(2);
  for (RankLedger& ledger : ledgers)
    ledger.begin(0, false);
  for (int step = 0; step < 100; ++step) {
    for (RankLedger& ledger : ledgers)
      ledger.compute(clock.now());
    pass(1);
    for (RankLedger& ledger : ledgers)
      ledger.computed(clock.now());
  }
  for (RankLedger& ledger : ledgers)
    ledger.end(clock.now());
  const Cost cost = cost_of(final_costs(ledgers, clock, [&] { pass(kDisk_s); }));
  CHECK(part_of(cost, Part::work) == Approx(100));
  CHECK(part_of(cost, Part::saving) == Approx(kDisk_s));
  CHECK(cost.efficiency() == Approx(100.0 / (100 + kDisk_s)));
}
