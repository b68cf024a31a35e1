// A run's work is the run's: on the virtual clock, whatever is slow, dies or comes late.
#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 8;
constexpr uint64_t kWork = 800;

Settings pooled(const char* method, Pacing pacing) {
  Settings s = at_work(kRanks, kWork, method, Share::pool);
  s.pacing = pacing;
  return s;
}

uint64_t of(const RunResult& r, int rank) {
  for (const WorkerReport& w : r.outcome.workers)
    if (w.rank == rank) return w.gradients;
  return 0;
}

}  // namespace

TEST_CASE("a slow rank costs a run its own share and no more") {
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    Settings s = pooled(method, Pacing::greedy);
    s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3}, 0)};
    s.plan.rank_faults[0].factor = 4;
    const RunResult r = simulate_one(s, 1);
    INFO(method);
    CHECK(r.outcome.gradients >= kWork);
    CHECK(r.outcome.gradients <= kWork + kRanks);
    CHECK(of(r, 3) < of(r, 0) / 3);
    const double ideal = static_cast<double>(kWork) / (kRanks - 1 + 0.25);
    CHECK(r.outcome.seconds < ideal + 1.5);
  }
}

TEST_CASE("what a rank that is killed has not done the others do") {
  for (const Pacing pacing : {Pacing::greedy, Pacing::poisson}) {
    Settings s = pooled("a2cid2", pacing);
    s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {3}, 20),
                          rank_fault(RankFaultKind::kill, {5}, 40)};
    const RunResult r = simulate_one(s, 1);
    CHECK(r.outcome.gradients >= kWork);
    CHECK(r.outcome.gradients <= kWork + kRanks);
    CHECK(r.outcome.seconds < 140);
  }
}

TEST_CASE("a rank that stands still for good holds nobody up") {
  Settings s = pooled("a2cid2", Pacing::greedy);
  s.plan.rank_faults = {rank_fault(RankFaultKind::pause, {2}, 30)};
  s.until_s = 1000;
  const RunResult r = simulate_one(s, 1);
  CHECK(r.outcome.gradients >= kWork);
  CHECK(r.outcome.seconds < 130);
}

TEST_CASE("equal shares take as long as the slowest rank, as methods that wait do") {
  Settings s = pooled("a2cid2", Pacing::greedy);
  s.share = Share::equal;
  s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3}, 0)};
  s.plan.rank_faults[0].factor = 4;
  const RunResult r = simulate_one(s, 1);
  CHECK(r.outcome.gradients == kWork);
  CHECK(of(r, 3) == of(r, 0));
  CHECK(r.outcome.seconds > 4 * static_cast<double>(kWork) / kRanks - 4);
  s = pooled("d_psgd", Pacing::greedy);
  const Status fits = check(s);
  REQUIRE_FALSE(fits);
  CHECK_THAT(fits.error().message, Catch::Contains("share is pool with method d_psgd"));
  s.share = Share::automatic;
  CHECK_FALSE(pools(s));
}
