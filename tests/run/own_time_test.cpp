// The properties of a single rank: the length of its gradients, its use of time, and the state that
// it returns with.
#include <algorithm>
#include <cmath>

#include "models/analytic_base.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

/// Gradients of one second each, and hardly an exchange.
Settings alone(int ranks, double until_s) {
  Settings s = gossip("ring", ranks);
  s.rate = 1e-9;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = until_s;
  s.objective.objective = "diagonal";
  s.objective.dim = 2;
  s.lr = {0.01, Schedule::constant, 0};
  return s;
}

const WorkerReport& worker_of(const RunResult& r, int rank) {
  const auto& all = r.outcome.workers;
  const auto at = std::find_if(all.begin(), all.end(), [&](auto& w) { return w.rank == rank; });
  REQUIRE(at != all.end());
  return *at;
}

/// f(x) = x_1 + x_2: the gradient is 1 everywhere.
class Slope final : public Analytic {
 public:
  explicit Slope(const ObjectiveSpec& spec) : Analytic(spec) {}

  double gradient(int, int, uint64_t, ConstVec x, Vec g) override {
    std::fill_n(g.as<double>(), dim(), 1.0);
    return x.as<double>()[0] + x.as<double>()[1];
  }
  Evaluation evaluate(int, int, ConstVec) override { return only_loss(0); }
  std::string description() const override { return "a slope"; }
};

}  // namespace

TEST_CASE(
    "a rank that comes back goes on with its source's optimizer, the count of its steps too") {
  // On a slope every step of Adam is as long as the learning rate, if its averages and the number
  // of steps they are made of fit each other.
  Settings s = alone(4, 120);
  s.rule.optimizer = {};
  s.rule.optimizer.kind = OptimizerKind::adam;
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {2}, 40.3),
                        rank_fault(RankFaultKind::restart, {2}, 60.1)};
  s.objective.ranks = s.ranks;
  const RunResult r = *run(s, std::make_unique<Slope>(s.objective), {});
  REQUIRE(r.outcome.parameters.size() == 4u);
  CHECK(r.outcome.exchanges == 0u);
  for (const RankParameters& p : r.outcome.parameters) {
    const WorkerReport& w = worker_of(r, p.rank);
    INFO("rank " << p.rank << ", " << w.gradients << " gradients");
    CHECK(w.gradients > 100u);
    for (size_t k = 0; k < 2; ++k)
      CHECK(p.x->vec().as<double>()[k] ==
            Approx(-0.01 * static_cast<double>(w.gradients)).epsilon(1e-6));
  }
}

TEST_CASE("durations of gradients that spread keep their mean of a second") {
  for (const double spread : {0.3, 0.8}) {
    Settings s = alone(16, 1500);
    s.speed_spread = spread;
    const RunResult r = simulate_one(s, 1);
    const double durations = 16 * 1500;  // as many as there are, if the mean is 1
    const double error = std::sqrt((std::exp(spread * spread) - 1) / durations);
    INFO("spread " << spread);
    CHECK(static_cast<double>(r.outcome.gradients) / durations == Approx(1).margin(5 * error));
  }
}

TEST_CASE(
    "a paused rank is busy with the gradient it stands in until it has gone on and ended it") {
  Settings s = alone(4, 90);
  RankFault pause = rank_fault(RankFaultKind::pause, {2}, 30.5);
  pause.until = 60;
  s.plan.rank_faults = {pause};
  const RunResult r = simulate_one(s, 1);
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    CHECK(worker_of(r, rank).idle_s < 1e-6);
    CHECK(worker_of(r, rank).gradients == Approx(rank == 2 ? 60 : 90).margin(1.5));
  }
}

TEST_CASE("pairs that compress agree on an edge's factors: matrices come together") {
  Settings s = gossip("ring", 8, "ad_psgd");
  s.target = 0;
  s.until_s = 150;
  s.objective.objective = "matrix";
  s.objective.rows = 8;
  s.objective.columns = 12;
  s.rule.compress = "powergossip:rank=1";
  const RunResult r = simulate_one(s, 1);
  CAPTURE(consensus_distance(r.outcome));  // 84 at the start
  CHECK(consensus_distance(r.outcome) < 1);
  for (const RankParameters& p : r.outcome.parameters)
    CHECK(p.counts.reseeded == 0u);
}
