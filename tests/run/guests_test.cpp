// Ranks whose steps come from guests, on the virtual clock: a script that does SGD is a worker to
// rounding, costs itself alone what it is slow, and may come and go.
#include <algorithm>
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"
#include "tests/run/simulated_scripts.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 8;

Settings descending(const std::string& method, const std::string& topology, double momentum) {
  Settings s = gossip(topology, kRanks, method);
  s.pacing = Pacing::greedy;
  s.pairing = Pairing::free;
  s.link = {0.02, 0.5, 0.1, 0};
  s.target = 0;
  s.until_s = 40.5;
  s.objective.objective = "diagonal";
  s.objective.dim = 12;
  s.objective.noise = 0.3;
  s.objective.mu = 0.1;
  s.objective.zeta2 = 1;
  s.lr = {0.1, Schedule::constant, 0};
  s.rule.optimizer = {momentum, 0};
  s.rule.relay_lr = false;
  return s;
}

RunResult with_scripts(Settings s, uint64_t seed,
                       const std::vector<std::vector<ScriptOptions>>& scripts,
                       std::unique_ptr<SimulatedScripts>* kept = nullptr) {
  s.seed = seed;
  s.rule.optimizer = {};
  auto objective = *make_objective(s);
  auto all = std::make_unique<SimulatedScripts>(s, objective, scripts);
  RunResult result = *run(s, objective, all->hooks());
  if (kept != nullptr) *kept = std::move(all);
  return result;
}

std::vector<std::vector<ScriptOptions>> alike(const ScriptOptions& options) {
  return std::vector<std::vector<ScriptOptions>>(kRanks, {options});
}

double apart(const RunResult& a, const RunResult& b) {
  double worst = 0;
  for (size_t k = 0; k < a.outcome.parameters.size(); ++k)
    for (size_t i = 0; i < a.outcome.parameters[k].x->size(); ++i)
      worst = std::max(worst, std::abs(a.outcome.parameters[k].x->vec().as<double>()[i] -
                                       b.outcome.parameters[k].x->vec().as<double>()[i]));
  return worst;
}

double apart_by(const RunResult& r, int rank, int other) {
  const auto& x = *r.outcome.parameters[static_cast<size_t>(rank)].x;
  const auto& y = *r.outcome.parameters[static_cast<size_t>(other)].x;
  return std::sqrt(square_distance({}, x, y));
}

uint64_t steps_of(const RunResult& r, int rank) {
  for (const WorkerReport& w : r.outcome.workers)
    if (w.rank == rank) return w.gradients;
  return 0;
}

uint64_t exchanges_of(const RunResult& r, int rank) {
  for (const CommunicatorReport& c : r.outcome.communicators)
    if (c.rank == rank) return c.counts.applied;
  return 0;
}

}  // namespace

// The other five of the program (d2, mean_estimation, moniqua, relaysgd_async, relaysum_grad) take
// the steps of scripts in tests/node/guests_test.py.
TEST_CASE("a script that does SGD is a worker to rounding, of the same seeds, by eleven methods") {
  const std::pair<const char*, const char*> methods[] = {
      {"a2cid2", "ring"},    {"ad_psgd", "ring"},    {"all_reduce", "ring"},
      {"d_psgd", "ring"},    {"qgm", "ring"},        {"gradient_tracking", "ring"},
      {"sgp", "ring"},       {"choco", "ring"},      {"deepsqueeze", "ring"},
      {"relaysgd", "chain"}, {"powergossip", "ring"}};
  for (const auto& [method, topology] : methods) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      INFO(method << " seed " << seed);
      Settings s = descending(method, topology, 0);
      if (method == std::string("choco")) s.rule.compress = "top-k:0.5", s.rule.gamma = 0.4;
      if (method == std::string("deepsqueeze")) s.rule.compress = "sign", s.rule.gamma = 0.4;
      const RunResult own = simulate_one(s, seed);
      const RunResult guests = with_scripts(s, seed, alike({.lr = 0.1}));
      CHECK(guests.outcome.gradients == own.outcome.gradients);
      CHECK(guests.outcome.exchanges == own.outcome.exchanges);
      REQUIRE(guests.outcome.parameters.size() == static_cast<size_t>(kRanks));
      CHECK(apart(guests, own) < 1e-11);
      CHECK(own.outcome.gradients > 100u);
    }
  }
}

TEST_CASE("a script's own momentum is the rule's, and nothing is lost between its steps") {
  for (const std::string method : {"a2cid2", "ad_psgd", "d_psgd", "all_reduce"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      INFO(method << " seed " << seed);
      const Settings s = descending(method, "ring", 0.9);
      const RunResult own = simulate_one(s, seed);
      const RunResult guests = with_scripts(s, seed, alike({.lr = 0.1, .momentum = 0.9}));
      CHECK(apart(guests, own) < 1e-10);
      CHECK(guests.outcome.conserved_error < 1e-9);
    }
  }
}

TEST_CASE("with an outer rate a script's steps are gradients, as a rank's own inner steps are") {
  for (const std::string method : {"a2cid2", "ad_psgd", "d_psgd", "all_reduce", "sgp"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      INFO(method << " seed " << seed);
      Settings s = descending(method, "ring", 0);
      s.outer_lr = 0.5, s.outer_momentum = 0.6;
      const RunResult own = simulate_one(s, seed);
      const RunResult guests = with_scripts(s, seed, alike({.lr = 0.1}));
      CHECK(guests.outcome.exchanges == own.outcome.exchanges);
      CHECK(apart(guests, own) < 1e-11);
      s.outer_lr = 0;
      CHECK(apart(guests, with_scripts(s, seed, alike({.lr = 0.1}))) > 1e-3);
    }
  }
}

// An edge's rate follows both its ends: r/2 (g_i/d_i + g_j/d_j). So the two neighbours of a script
// that takes a tenth of the steps make 0.775 of their exchanges, and nobody else any fewer. More
// would have to be somebody else's: on a ring of four the two share one other partner.
TEST_CASE("a script that is ten times slower costs nobody a step, and exchanges on its own edges") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Settings s = descending("a2cid2", "ring", 0);
    s.until_s = 400.5;
    auto scripts = alike({});
    const RunResult equal = with_scripts(s, seed, scripts);
    scripts[3][0].slowness = 10;
    const RunResult slow = with_scripts(s, seed, scripts);
    INFO("seed " << seed);
    CHECK(steps_of(slow, 3) * 9 < steps_of(equal, 3));
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == 3) continue;
      CHECK(steps_of(slow, rank) == steps_of(equal, rank));
      const double wanted = std::abs(rank - 3) == 1 ? 0.5 + (0.5 + 0.05) / 2 : 1;
      CHECK(static_cast<double>(exchanges_of(slow, rank)) >
            0.98 * wanted * static_cast<double>(exchanges_of(equal, rank)));
    }
  }
}

TEST_CASE("a script that does something else for a while leaves the rates of exchanges alone") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Settings s = descending("a2cid2", "ring", 0);
    s.until_s = 200.5;
    auto scripts = alike({});
    const RunResult equal = with_scripts(s, seed, scripts);
    scripts[3][0].tests_at = 20;
    scripts[3][0].tests_s = 160;
    const RunResult tests = with_scripts(s, seed, scripts);
    INFO("seed " << seed);
    CHECK(steps_of(tests, 3) < 45);
    // Ten steps' time goes by before it is known, and counts.
    CHECK(static_cast<double>(exchanges_of(tests, 3)) >
          0.85 * static_cast<double>(exchanges_of(equal, 3)));
  }
}

TEST_CASE("a rank without a script gossips on, and the next one takes over what it has by then") {
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      INFO(method << " seed " << seed);
      auto scripts = alike({});
      scripts[2] = {{.goes_s = 10.5}, {.comes_s = 20.25}};
      std::unique_ptr<SimulatedScripts> seen;
      const RunResult r = with_scripts(descending(method, "ring", 0), seed, scripts, &seen);
      CHECK(seen->log(2, 0).steps == 10);
      CHECK(seen->log(2, 1).first == 10);  // steps of the rank, not of the script
      CHECK(seen->log(2, 1).steps == 20);
      CHECK(steps_of(r, 2) == 30);
      CHECK(seen->log(2, 1).exchanges > seen->log(2, 0).exchanges + 5);
      CHECK(r.outcome.conserved_error < 1e-9);
    }
  }
}

TEST_CASE("a rank that is killed and comes back answers its script, which never noticed") {
  for (const std::string method : {"a2cid2", "d_psgd"}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      INFO(method << " seed " << seed);
      Settings s = descending(method, "ring", 0);
      s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {5}, 10.3),
                            rank_fault(RankFaultKind::restart, {5}, 20.1)};
      std::unique_ptr<SimulatedScripts> seen;
      const RunResult r = with_scripts(s, seed, alike({}), &seen);
      REQUIRE(r.outcome.parameters.size() == static_cast<size_t>(kRanks));
      CHECK(seen->log(5, 0).steps > 25);
      CHECK(seen->log(5, 0).steps < 35);
      CHECK(steps_of(r, 5) > 30);  // it goes on with a neighbour's count
    }
  }
}

// Rank 1 takes three seconds a step, and rank 2, which takes one, waits for it in every round.
TEST_CASE("a script that waits for the others' steps is idle meanwhile, and only then") {
  auto scripts = alike({});
  scripts[1][0].slowness = 3;
  const RunResult r = with_scripts(descending("d_psgd", "ring", 0), 1, scripts);
  for (const WorkerReport& w : r.outcome.workers) {
    INFO("rank " << w.rank);
    const double idle = w.idle_s / w.alive_s;
    if (w.rank == 1) CHECK(idle < 0.1);
    if (w.rank == 2) CHECK(idle == Approx(2.0 / 3).margin(0.05));
  }
}

TEST_CASE("a step whose script goes before its round is over is taken, and its successor goes on") {
  for (const double comes_s : {11.25, 20.25}) {  // the round that begins at 9 ends at 12
    INFO("comes at " << comes_s);
    auto scripts = alike({});
    scripts[1][0].slowness = 3;
    scripts[2] = {{.goes_s = 10.5}, {.comes_s = comes_s}};
    std::unique_ptr<SimulatedScripts> seen;
    const RunResult r = with_scripts(descending("d_psgd", "ring", 0), 1, scripts, &seen);
    CHECK(seen->log(2, 0).steps == 3);
    CHECK(seen->log(2, 1).first == 4);
    CHECK(seen->log(2, 1).steps > 5);
    CHECK(steps_of(r, 2) == 4 + seen->log(2, 1).steps);
  }
}

TEST_CASE("a paused rank neither takes a step nor answers, and each question has one answer") {
  for (const std::string method : {"a2cid2", "d_psgd"}) {  // in rounds it waits when it is paused
    INFO(method);
    const std::pair<double, double> pauses[] = {{11, 20.25}, {26.5, 30.25}};  // as it has asked
    Settings s = descending(method, "ring", 0);
    for (const auto& [from, to] : pauses) {
      s.plan.rank_faults.push_back(rank_fault(RankFaultKind::pause, {3}, from));
      s.plan.rank_faults.back().until = to;
    }
    auto scripts = alike({});
    scripts[2][0].slowness = 3;
    std::unique_ptr<SimulatedScripts> seen;
    const RunResult r = with_scripts(s, 1, scripts, &seen);
    const ScriptLog& log = seen->log(3, 0);
    for (const double at : log.answered_s)
      for (const auto& [from, to] : pauses)
        CHECK_FALSE((from <= at && at < to));
    CHECK(log.answered_s.back() > 36);
    CHECK(steps_of(r, 3) >= log.steps);
    CHECK(steps_of(r, 3) <= log.steps + 1);  // one that is under way at the end
    if (method == "a2cid2") CHECK(log.steps == 10 + 7 + 11);
  }
}

TEST_CASE("what a script asks while its rank is paused, or when the run is over, is not taken") {
  Settings s = descending("a2cid2", "ring", 0);
  s.until_s = 14.99;  // exchanges end in the time that the fifteenth step needs
  s.plan.rank_faults = {rank_fault(RankFaultKind::pause, {3}, 10.5)};
  std::unique_ptr<SimulatedScripts> seen;
  const RunResult r = with_scripts(s, 1, alike({}), &seen);
  for (int rank = 0; rank < kRanks; ++rank) {
    INFO("rank " << rank);
    const ScriptLog& log = seen->log(static_cast<size_t>(rank), 0);
    CHECK(steps_of(r, rank) == (rank == 3 ? 10 : 14));
    if (rank != 3) CHECK(log.end);
  }
  CHECK(r.outcome.gradients == 7 * 14 + 10);
}

TEST_CASE("a new graph while scripts compute loses no step") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Settings s = descending("a2cid2", "ring", 0);
    s.plan.reconfigurations = {{10.2, "complete"}, {20.2, "ring"}};
    std::unique_ptr<SimulatedScripts> seen;
    const RunResult r = with_scripts(s, seed, alike({}), &seen);
    for (int rank = 0; rank < kRanks; ++rank) {
      CHECK(steps_of(r, rank) == 40);
      CHECK(seen->log(static_cast<size_t>(rank), 0).steps == 40);
    }
    CHECK(r.outcome.conserved_error < 1e-9);
  }
}

TEST_CASE("at the horizon a script is told that no more steps are taken, and none is") {
  Settings s = descending("a2cid2", "ring", 0);
  s.gradients = kRanks * 15;
  s.until_s = 0;
  std::unique_ptr<SimulatedScripts> seen;
  const RunResult r = with_scripts(s, 1, alike({}), &seen);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(steps_of(r, rank) == 15);
    CHECK(seen->log(static_cast<size_t>(rank), 0).end);
  }
}

TEST_CASE("a run ends when all scripts have said that they have done their share") {
  Settings s = descending("a2cid2", "ring", 0);
  s.until_s = 1000;
  auto scripts = alike({.steps = 12});
  scripts[1][0].steps = 25;
  const RunResult r = with_scripts(s, 1, scripts);
  CHECK(r.outcome.seconds < 30);
  CHECK(steps_of(r, 0) == 12);
  CHECK(steps_of(r, 1) == 25);
}

TEST_CASE(
    "what a script leaves of its share the others do, who do not wait for it in rounds either") {
  for (const std::string method : {"a2cid2", "d_psgd", "all_reduce", "gradient_tracking", "sgp"}) {
    INFO(method);
    Settings s = descending(method, "ring", 0);
    s.gradients = kRanks * 15;
    s.until_s = 0;
    auto scripts = alike({});
    scripts[1][0].steps = 5;
    std::unique_ptr<SimulatedScripts> seen;
    const RunResult r = with_scripts(s, 1, scripts, &seen);
    CHECK(r.outcome.gradients == kRanks * 15);
    CHECK(steps_of(r, 1) == 5);
    CHECK(seen->log(0, 0).steps >= 16);
    CHECK_FALSE(r.outcome.conserved_error >= 1e-9);  // NaN: they end in different rounds
    CHECK(r.outcome.parameters.size() == static_cast<size_t>(kRanks));
  }
}

TEST_CASE(
    "in rounds a rank that has finished holds nobody up, and moves by nobody's step but theirs") {
  for (const std::string method : {"d_psgd", "all_reduce"}) {
    INFO(method);
    Settings s = descending(method, "ring", 0);
    s.until_s = 1000;
    auto scripts = alike({.steps = 5});
    scripts[3][0].steps = 30;
    std::unique_ptr<SimulatedScripts> seen;
    const RunResult r = with_scripts(s, 1, scripts, &seen);
    CHECK(seen->log(3, 0).steps == 30);
    const RunResult all = with_scripts(s, 1, alike({.steps = 30}));
    CHECK(r.outcome.seconds < all.outcome.seconds + 2);  // as long as its own steps take
    CHECK(r.outcome.gradients == 7 * 5 + 30);
  }
}

TEST_CASE("a script that has ended takes the outer steps of all, at their rate") {
  Settings s = descending("all_reduce", "ring", 0);
  s.until_s = 1000;
  s.objective.noise = 0;
  s.outer_lr = 0.5, s.outer_momentum = 0.9;
  auto scripts = alike({.lr = 0.1, .steps = 5});
  scripts[3][0].steps = 30;
  const RunResult r = with_scripts(s, 1, scripts);
  CHECK(r.outcome.gradients == 7 * 5 + 30);
  for (int rank = 1; rank < kRanks; ++rank)
    CHECK(apart_by(r, rank, 0) == 0);
}

TEST_CASE("a script that makes a number which is none hears of it, and nobody else has it") {
  std::unique_ptr<SimulatedScripts> seen;
  auto scripts = alike({});
  scripts[4][0].spoils_at = 7;
  const RunResult r = with_scripts(descending("a2cid2", "ring", 0), 1, scripts, &seen);
  CHECK(seen->log(4, 0).not_finite == 1);
  CHECK(seen->log(4, 0).steps == 40);
  for (const RankParameters& p : r.outcome.parameters)
    for (size_t i = 0; i < p.x->size(); ++i)
      CHECK(std::isfinite(p.x->vec().as<double>()[i]));
}

// Each rank's own optimum is elsewhere, so that steps do not vanish. The last step of rank 0 takes
// the rest of the time. The exchanges make x_0 and this step together equal to x_1, but for the
// newest step of rank 1.
TEST_CASE("an exchange sends the steps that a script has not told yet, and the sum stays exact") {
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    INFO(method);
    Settings s = descending(method, "chain", 0);
    s.ranks = 2;
    s.rate = 4;
    s.objective.noise = 0;
    s.until_s = 60.5;
    s.outer_lr = 1, s.outer_momentum = 0;
    std::vector<std::vector<ScriptOptions>> scripts(2, {{.writes_early = true}});
    ScriptOptions& first = scripts[0][0];
    first.tests_at = 10, first.tests_s = 1000;
    const RunResult r = with_scripts(s, 1, scripts);
    CHECK(steps_of(r, 0) == 10);
    CHECK(r.outcome.conserved_error < 1e-12);
    CHECK(apart_by(r, 0, 1) > 0.08);
    first.writes_early = false;
    CHECK(apart_by(with_scripts(s, 1, scripts), 0, 1) < 0.04);
    first.writes_early = true, first.spoils_at = 10;  // a number that is none stays with the script
    CHECK(apart_by(with_scripts(s, 1, scripts), 0, 1) < 0.04);
  }
}
