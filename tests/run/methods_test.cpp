// Whole runs of every method with every optimizer, schedule and compressor, against numbers that
// another program computed: oracle.py beside this file, which also says what the problem is.
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "models/analytic_base.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 6, kRows = 4, kColumns = 5, kVector = 3;
constexpr int kSize = kRows * kColumns + kVector;
constexpr int kRounds = 20;

struct Row {
  const char *method, *topology, *compress;
  double gamma;
  const char *optimizer, *schedule;
  double projection, squares;
};

constexpr Row kRuns[] = {
#define GRAPEVINE_ORACLE_RUNS
#include "tests/run/oracle.inc"
#undef GRAPEVINE_ORACLE_RUNS
};

struct PairRow {
  const char* compress;
  uint64_t exchanges;
  double projection, squares;
};

constexpr PairRow kPairs[] = {
#include "tests/run/oracle.inc"
};

/// The problem of oracle.py; or, without gradients, the points that its pairs start at.
class Bowls final : public Analytic {
 public:
  enum class Start { apart, together, pairs };

  Bowls(int ranks, Start start) : Analytic(spec_of(ranks), tensors()), start_(start) {}

  bool has_gradients() const override { return start_ != Start::pairs; }
  void initial_point(int rank, Vec x) const override {
    const int i = start_ == Start::together ? 0 : rank;
    for (int k = 0; k < kSize; ++k)
      x.as<double>()[k] = start_ == Start::pairs
                              ? std::sin(1 + 1.7 * k + 0.9 * i)
                              : 0.3 * std::cos(2 * k) + 0.2 * std::sin(1 + i + 0.3 * i * k);
  }
  double gradient(int, int rank, uint64_t, ConstVec x, Vec g) override {
    order_.push_back(rank);
    for (int k = 0; k < kSize; ++k) {
      const double curvature = 0.6 + 0.4 * std::sin(1 + 0.7 * rank + 1.1 * k);
      const double away = x.as<double>()[k] - std::sin(2 + 1.3 * rank + 0.9 * k);
      g.as<double>()[k] = curvature * away;
    }
    return 0;
  }
  Evaluation evaluate(int, int, ConstVec) override { return only_loss(0); }
  std::string description() const override { return "bowls"; }

  /// The ranks whose gradients were taken, in this order.
  const std::vector<int>& order() const { return order_; }

 private:
  static ObjectiveSpec spec_of(int ranks) {
    ObjectiveSpec spec;
    spec.ranks = ranks;
    return spec;
  }
  static ParameterLayout tensors() {
    ParameterLayout layout(DType::f64);
    layout.add("w", {kRows, kColumns}, true);
    layout.add("b", {kVector}, false);
    return layout;
  }

  Start start_;
  std::vector<int> order_;
};

OptimizerSettings optimizer_of(const std::string& name) {
  OptimizerSettings o;
  o.weight_decay = 0.02;
  o.momentum = name == "sgd" || name == "nesterov" ? 0.9 : 0;
  o.nesterov = name == "nesterov";
  if (name == "adam") o.kind = OptimizerKind::adam;
  if (name == "adamw") o.kind = OptimizerKind::adamw;
  return o;
}

LearningRate rate_of(const std::string& name) {
  if (name == "step") return {0.05, Schedule::step, 0};
  if (name == "cosine") return {0.05, Schedule::cosine, 0};
  return {0.05, Schedule::constant, name == "warm-up" ? 0.25 : 0};
}

Settings settings_of(const Row& row) {
  Settings s = gossip(row.topology, kRanks, row.method);
  s.pacing = Pacing::greedy;
  s.pairing = Pairing::free;
  if (method_named(row.method).pattern == Pattern::pairwise) s.rate = 1e-9;  // they never meet
  s.target = 0;
  s.guarded = false;  // the papers have no guard, and the ranks begin far from each other
  s.gradients = kRounds * kRanks;
  s.objective.objective = "diagonal";  // ours is handed to the run
  s.lr = rate_of(row.schedule);
  s.rule.optimizer = optimizer_of(row.optimizer);
  s.rule.compress = row.compress;
  s.rule.gamma = row.gamma;
  s.weights = row.method == std::string("d2") ? "lazy" : "metropolis";
  return s;
}

/// `digits`: how exactly. Where ranks differ by a matrix of lower rank than the factors, these are
/// made of roundings.
void check_numbers(const Outcome& outcome, int ranks, double projection, double squares,
                   double digits) {
  REQUIRE(outcome.parameters.size() == static_cast<size_t>(ranks));
  double along = 0, square = 0;
  for (const RankParameters& p : outcome.parameters) {
    for (int k = 0; k < kSize; ++k) {
      const double x = std::as_const(*p.x).vec().as<double>()[k];
      along += x * std::cos(1 + kSize * p.rank + k);
      square += x * x;
    }
  }
  CHECK(along == Approx(projection).epsilon(digits));
  CHECK(square == Approx(squares).epsilon(digits));
}

}  // namespace

TEST_CASE("every method computes what another program does, whatever its optimizer and schedule") {
  for (const Row& row : kRuns) {
    INFO(row.method << " on " << row.topology << ", " << row.compress << ", " << row.optimizer
                    << ", " << row.schedule);
    const Settings s = settings_of(row);
    const Status possible = check(s);
    INFO((possible ? "" : possible.error().message));
    REQUIRE(possible);
    const bool collective = method_named(row.method).pattern == Pattern::collective;
    const auto bowls =
        std::make_shared<Bowls>(kRanks, collective ? Bowls::Start::together : Bowls::Start::apart);
    const RunResult r = *run(s, bowls, {});
    REQUIRE(r.outcome.gradients == kRounds * kRanks);
    if (!method_named(row.method).waits) {  // the order that oracle.py has as ORDER
      const std::vector<int> order{5, 3, 4, 2, 0, 1};
      const auto first = bowls->order().begin();
      REQUIRE(std::vector<int>(first, first + kRanks) == order);
    }
    const double digits = row.method == std::string("powergossip") ? 1e-6 : 1e-10;
    check_numbers(r.outcome, kRanks, row.projection, row.squares, digits);
  }
}

TEST_CASE("two ranks that only exchange are where another program has them after each exchange") {
  uint64_t most = 0;
  for (const PairRow& row : kPairs) {
    if (row.exchanges != 1) continue;
    for (const double until_s : {2.0, 4.0, 7.0, 10.0}) {
      Settings s = gossip("chain", 2, "ad_psgd");
      s.target = 0;
      s.until_s = until_s;
      s.objective.objective = "diagonal";
      s.rule.compress = row.compress;
      const RunResult r = *run(s, std::make_shared<Bowls>(2, Bowls::Start::pairs), {});
      INFO(row.compress << ", " << r.outcome.exchanges << " exchanges");
      REQUIRE(r.outcome.exchanges > 0u);
      const PairRow* there = &row;
      while (there->exchanges < r.outcome.exchanges && there + 1 < std::end(kPairs))
        ++there;
      REQUIRE(there->exchanges == r.outcome.exchanges);
      check_numbers(r.outcome, 2, there->projection, there->squares, 1e-10);
      most = std::max(most, r.outcome.exchanges);
    }
  }
  CHECK(most >= 4u);
}
