// A run whose loss or parameters grow without end says so and fails, whatever it trains, by
// whatever method, on either clock, sampled or not; one that only swings or noise is none.
#include <cmath>

#include "actors/node/observer.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

Settings too_large_steps(const std::string& method, const std::string& objective, double lr) {
  Settings s = free_gossip("complete", 8, 0.05);
  s.method = method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = 8 * 120;
  s.sample_s = 0;
  s.objective.objective = objective;
  s.objective.dim = 10;
  s.lr = {lr, Schedule::constant, 0};
  s.rule.optimizer = {};
  return s;
}

void check_diverged(const Settings& s, const RunResult& r) {
  INFO(s.method << ", " << s.objective.objective << ", lr " << s.lr.peak);
  REQUIRE(r.outcome.alarm);
  CHECK(r.outcome.alarm->what == Alarm::What::divergence);
  REQUIRE(r.outcome.failure);
  CHECK(r.outcome.failure->exit_status() == 1);
  CHECK(!r.outcome.alarm->advice.empty());
}

}  // namespace

TEST_CASE("steps that are too large end a run as diverged, by every method, sampled or not") {
  for (const char* method : {"a2cid2", "ad_psgd", "d_psgd", "all_reduce", "relaysgd"})
    for (const double sample_s : {0.0, 1.0})
      for (const double lr : {2.3, 3.0, 50.0}) {
        Settings s = too_large_steps(method, "quadratic", lr);
        if (s.method == "relaysgd") s.topology = "chain";
        s.sample_s = sample_s;
        check_diverged(s, simulate_one(s, 1));
      }
}

TEST_CASE("they do so whatever is trained, and right steps are no alarm") {
  for (const char* objective : {"quadratic", "diagonal", "scalar", "mean"}) {
    Settings s = too_large_steps("a2cid2", objective, 3);
    if (s.objective.objective == "scalar") s.objective.dim = 1;
    check_diverged(s, simulate_one(s, 1));
    s.lr.peak = 0.1;
    s.objective.noise = s.objective.objective == "quadratic" ? 1 : 0;
    for (const double r0 : {0.0, 10.0, 1e9}) {
      s.objective.r0 = r0;
      s.sample_s = 1;
      INFO(objective << ", r0 " << r0);
      const RunResult r = simulate_one(s, 1);
      CHECK_FALSE(r.outcome.alarm);
      CHECK_FALSE(r.outcome.failure);
    }
  }
}

TEST_CASE("on the wall clock a run that nobody samples is judged at its end") {
  Settings s = too_large_steps("a2cid2", "quadratic", 2.3);
  s.clock = Clock::wall;
  s.plan = {};
  s.link = {};
  s.threads = 1;
  auto r = run(s);
  REQUIRE(r);
  check_diverged(s, *r);
  s.lr.peak = 0.1;
  r = run(s);
  REQUIRE(r);
  CHECK_FALSE(r->outcome.alarm);
}

TEST_CASE(
    "a loss that stays far above its start is told though it only swings, as large parameters") {
  Sizes sizes;
  sizes.first_loss = sizes.loss = 50;
  DivergenceWatch swings, peaks, large, far_optimum, silent;
  int told = 0;
  for (int k = 0; k < 20; ++k) {
    sizes.loss = k % 2 == 0 ? 1e7 : 2e6;
    told += !swings.sees(sizes).empty();
    sizes.loss = k % 2 == 0 ? 1e7 : 1;
    CHECK(peaks.sees(sizes) == "");
  }
  CHECK(told == 18);
  sizes.loss = 60;
  sizes.size = 1e7;
  told = 0;
  for (int k = 0; k < 20; ++k)
    told += !large.sees(sizes).empty();
  CHECK(told == 18);
  sizes.loss = 40;  // it is better than at first: the optimum is far away
  for (int k = 0; k < 20; ++k)
    CHECK(far_optimum.sees(sizes) == "");
  sizes.loss = sizes.first_loss = Sizes::kNone;
  told = 0;
  for (int k = 0; k < 20; ++k)
    told += !silent.sees(sizes).empty();
  CHECK(told == 18);
  sizes.loss = INFINITY;
  CHECK(peaks.sees(sizes) != "");
}

TEST_CASE("gossip that grows without end is told though the guard holds the parameters") {
  Settings s = too_large_steps("choco", "quadratic", 0.001);
  s.topology = "ring";
  s.rule.compress = "random-k:0.05";
  s.objective.dim = 200;
  s.objective.zeta2 = 1;
  s.gradients = 8 * 8000;
  s.sample_s = 100;
  check_diverged(s, simulate_one(s, 1));
  s.rule.gamma = 0.02;
  const RunResult right = simulate_one(s, 1);
  CHECK_FALSE(right.outcome.alarm);
  CHECK_FALSE(right.outcome.failure);
}

TEST_CASE("a pull at some ranks of a run is no divergence of the run") {
  Sizes sizes;
  DivergenceWatch watch;
  sizes.pull = 1e9;
  CHECK(watch.sees(sizes) == "");
  CHECK(watch.sees(sizes) == "");
  sizes.pull = 0;
  CHECK(watch.sees(sizes) == "");
  sizes.pull = 1e9;
  CHECK(watch.sees(sizes) == "");
  CHECK(watch.sees(sizes) == "");
  CHECK(watch.sees(sizes) != "");
}
