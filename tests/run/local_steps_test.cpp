// Ranks that hand to their rules what several steps of their own have done, on the virtual clock:
// against loops in plain doubles, under losses, deaths and unequal speeds, and at the end.
#include <cmath>
#include <set>

#include "actors/algorithms/method_registry.hpp"
#include "actors/state/local_steps.hpp"
#include "tests/catch.hpp"
#include "tests/run/as_matrix.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

using Numbers = std::vector<double>;

constexpr int kRanks = 6;
constexpr size_t kDim = 12;

Settings descending(const std::string& method, const std::string& topology = "ring") {
  Settings s = free_gossip(topology, kRanks, 0.05);
  s.method = method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.share = Share::equal;
  s.gradients = 42 * kRanks;
  s.objective.objective = "quadratic";
  s.objective.dim = kDim;
  s.objective.noise = 0.1;
  s.objective.zeta2 = 1;
  s.objective.seed = s.seed;
  s.objective.ranks = s.ranks;
  s.lr = {0.05, Schedule::constant, 0};
  s.rule.optimizer = {.momentum = 0.5};
  s.weights = method == "d2" ? "lazy" : "metropolis";
  s.inner_steps = 7;
  return s;
}

ConstVec view(const Numbers& x) { return {x.data(), x.size(), DType::f64}; }
Vec view(Numbers& x) { return {x.data(), x.size(), DType::f64}; }

Numbers start_of(const Settings& s) {
  Numbers x(kDim);
  (*make_objective(s))->initial_point(0, view(x));
  return x;
}

Numbers x_of(const RunResult& r, int rank) {
  const auto& p = r.outcome.parameters.at(static_cast<size_t>(rank));
  REQUIRE(p.rank == rank);
  const auto* x = p.x->vec().as<double>();
  return {x, x + p.x->size()};
}

double apart(const Numbers& a, const Numbers& b) {
  double most = 0;
  for (size_t k = 0; k < a.size(); ++k)
    most = std::max(most, std::abs(a[k] - b[k]));
  return most;
}

uint64_t gradients_of(const RunResult& r, int rank) {
  for (const WorkerReport& w : r.outcome.workers)
    if (w.rank == rank) return w.gradients;
  return 0;
}

/// The steps of one rank alone, in plain doubles: SGD with momentum, or AdamW, at a constant rate.
struct Loop {
  std::shared_ptr<Objective> objective;
  int rank = 0;
  double lr = 0;
  OptimizerSettings optimizer = {};
  uint64_t taken = 0;
  Numbers m = Numbers(kDim), v = Numbers(kDim);

  Numbers after(Numbers x, uint64_t steps) {
    Numbers g(kDim);
    for (uint64_t step = 0; step < steps; ++step) {
      objective->gradient(0, rank, taken++, view(std::as_const(x)), view(g));
      const auto t = static_cast<double>(taken);
      for (size_t k = 0; k < kDim; ++k) {
        if (optimizer.kind == OptimizerKind::sgd) {
          m[k] = optimizer.momentum * m[k] + g[k];
          x[k] -= lr * m[k];
          continue;
        }
        m[k] = 0.9 * m[k] + 0.1 * g[k];
        v[k] = 0.999 * v[k] + 0.001 * g[k] * g[k];
        const double of_v = std::sqrt(v[k] / (1 - std::pow(0.999, t))) + 1e-8;
        x[k] -= lr * (m[k] / (1 - std::pow(0.9, t)) / of_v + optimizer.weight_decay * x[k]);
      }
    }
    return x;
  }
};

std::vector<Loop> loops_of(const Settings& s) {
  std::vector<Loop> loops;
  const auto objective = std::shared_ptr<Objective>(*make_objective(s));
  for (int rank = 0; rank < s.ranks; ++rank)
    loops.push_back({objective, rank, s.lr.peak, s.rule.optimizer});
  return loops;
}

/// torch.optim.SGD(lr, momentum, nesterov=True), fed by hand.
struct Outer {
  double lr = 0.7, momentum = 0.9;
  Numbers v = Numbers(kDim);

  void step(const Numbers& g, Numbers& x) {
    for (size_t k = 0; k < kDim; ++k) {
      v[k] = momentum * v[k] + g[k];
      x[k] -= lr * (g[k] + momentum * v[k]);
    }
  }
};

/// Of one parameter, and with nothing to evaluate or save.
class OneNumber : public Objective {
 public:
  const ParameterLayout& layout() const override { return layout_; }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "one number"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  ParameterLayout layout_ = ParameterLayout::flat(1, DType::f64);
};

/// Ranks that start at their own numbers and have nothing to descend; where each gradient was
/// taken.
class Watched final : public OneNumber {
 public:
  void initial_point(int rank, Vec x) const override { *x.as<double>() = rank; }
  double gradient(int, int rank, uint64_t, ConstVec x, Vec g) override {
    places[static_cast<size_t>(rank)].push_back(*x.as<double>());
    *g.as<double>() = 0;
    return 0;
  }

  std::vector<Numbers> places = std::vector<Numbers>(kRanks);
};

}  // namespace

TEST_CASE(
    "all-reduce with inner steps is DiLoCo, with SGD and AdamW inside, the last round short") {
  for (const OptimizerSettings& inner :
       {OptimizerSettings{.momentum = 0.5},
        OptimizerSettings{.weight_decay = 0.1, .kind = OptimizerKind::adamw}}) {
    Settings s = descending("all_reduce");
    s.rule.optimizer = inner;
    s.gradients = 46 * kRanks;
    Numbers theta = start_of(s);
    std::vector<Loop> loops = loops_of(s);
    Outer outer;
    for (const uint64_t steps : {7u, 7u, 7u, 7u, 7u, 7u, 4u}) {
      Numbers g(kDim);
      for (Loop& loop : loops) {
        const Numbers moved = loop.after(theta, steps);
        for (size_t k = 0; k < kDim; ++k)
          g[k] += (theta[k] - moved[k]) / kRanks;
      }
      outer.step(g, theta);
    }
    const RunResult r = simulate_one(s, 1);
    CHECK(r.outcome.gradients == s.gradients);
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(apart(x_of(r, rank), theta) < 1e-12);
    CHECK(apart(theta, start_of(s)) > 0.1);
  }
}

TEST_CASE("a rank alone takes outer steps of what it does, by every method of pairs") {
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    Settings s = descending(method, "chain");
    s.ranks = s.objective.ranks = 1;
    s.gradients = 45;
    s.objective.zeta2 = 0;
    s.outer_lr = 0.4, s.outer_momentum = 0.6;
    Numbers x = start_of(s);
    Loop loop = loops_of(s).front();
    Outer outer{0.4, 0.6};
    for (const uint64_t steps : {7u, 7u, 7u, 7u, 7u, 7u, 3u}) {
      Numbers g = x;
      const Numbers moved = loop.after(x, steps);
      for (size_t k = 0; k < kDim; ++k)
        g[k] -= moved[k];
      outer.step(g, x);
    }
    CHECK(apart(x_of(simulate_one(s, 1), 0), x) < 1e-12);
  }
}

TEST_CASE("D-PSGD with an outer rate of 1 and no momentum is local SGD") {
  Settings s = descending("d_psgd");
  s.outer_lr = 1, s.outer_momentum = 0;
  std::vector<Loop> loops = loops_of(s);
  std::vector<Numbers> x(kRanks, start_of(s));
  for (int round = 0; round < 6; ++round) {
    std::vector<Numbers> h;
    for (size_t i = 0; i < kRanks; ++i)
      h.push_back(loops[i].after(x[i], 7));
    for (size_t i = 0; i < kRanks; ++i)
      for (size_t k = 0; k < kDim; ++k)
        x[i][k] = (h[i][k] + h[(i + 1) % kRanks][k] + h[(i + kRanks - 1) % kRanks][k]) / 3;
  }
  const RunResult r = simulate_one(s, 1);
  for (int rank = 0; rank < kRanks; ++rank)
    CHECK(apart(x_of(r, rank), x[static_cast<size_t>(rank)]) < 1e-12);
}

TEST_CASE(
    "one inner step without an outer rate changes nothing, and with one it is an outer step") {
  Settings s = descending("a2cid2");
  s.inner_steps = 1;
  CHECK_FALSE(inner_steps_of(s));
  CHECK(rule_settings_of(s).optimizer.momentum == 0.5);
  s.outer_lr = 0.3;
  REQUIRE(inner_steps_of(s));
  CHECK(rule_settings_of(s).optimizer.momentum == 0.9);
  CHECK(rule_settings_of(s).optimizer.nesterov);
  s.inner_steps = 30, s.outer_lr = 0;
  CHECK(inner_steps_of(s).outer_lr == 0.7);
  CHECK(inner_steps_of(s).optimizer.momentum == 0.5);
}

TEST_CASE("a method that has a momentum of its own takes any inner optimizer") {
  Settings s = descending("qgm");
  s.rule.optimizer = {.kind = OptimizerKind::adamw};
  CHECK(check(s));
  s.inner_steps = 1;
  CHECK_FALSE(check(s));
}

TEST_CASE("every method trains with inner steps, and each rank takes all of its gradients") {
  const std::pair<const char*, const char*> methods[] = {{"a2cid2", "ring"},
                                                         {"ad_psgd", "ring"},
                                                         {"all_reduce", "ring"},
                                                         {"d_psgd", "ring"},
                                                         {"d2", "ring"},
                                                         {"qgm", "ring"},
                                                         {"sgp", "ring"},
                                                         {"choco", "ring"},
                                                         {"gradient_tracking", "ring"},
                                                         {"relaysgd", "chain"},
                                                         {"relaysgd_async", "chain"},
                                                         {"deepsqueeze", "ring"},
                                                         {"moniqua", "ring"},
                                                         {"relaysum_grad", "chain"}};
  for (const auto& [method, topology] : methods) {
    INFO(method);
    Settings s = descending(method, topology);
    s.objective.noise = 0;
    s.objective.zeta2 = 0;
    s.gradients = 300 * kRanks;
    s.lr.peak = 0.1;
    s.speed_spread = 0.2;
    s.outer_lr = 0.4, s.outer_momentum = 0.5;
    s.rule.relay_lr = false;
    if (method == std::string("choco")) s.rule.compress = "top-k:0.5", s.rule.gamma = 0.4;
    if (method == std::string("deepsqueeze")) s.rule.compress = "quantise:8", s.rule.gamma = 0.4;
    if (method == std::string("moniqua")) s.rule.compress = "modulo:20", s.rule.gamma = 0.1;
    const RunResult r = simulate_one(s, 1);
    CHECK(r.outcome.gradients == s.gradients);
    CHECK_FALSE(r.outcome.alarm);
    const auto objective = *make_objective(s);
    const double before = objective->evaluate(0, -1, view(start_of(s))).loss;
    CHECK(objective->evaluate(0, -1, mean_parameters(r.outcome)).loss < 0.2 * before);
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(gradients_of(r, rank) == 300);
  }
}

// Of an exchange that a death breaks one end alone may have taken its half, of a size that is told.
TEST_CASE("the sum over ranks is the start without all outer steps, whatever is lost or dies") {
  uint64_t exact = 0, runs = 0;
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    for (const char* compress : {"", "powergossip:rank=1", "random:0.3"}) {
      for (const Pacing pacing : {Pacing::greedy, Pacing::poisson}) {
        for (uint64_t seed = 1; seed <= 20; ++seed) {
          INFO(method << ' ' << compress << " seed " << seed);
          Settings s = descending(method);
          s.rule.compress = compress;
          s.pacing = pacing;
          s.speed_spread = 0.5;
          s.gradients = 0;
          s.until_s = 83.3;
          s.plan.link_faults = {loss_of(FrameClass::all, 0.1)};
          s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {1}),
                                rank_fault(RankFaultKind::kill, {2}, 30.2),
                                rank_fault(RankFaultKind::restart, {2}, 51.1)};
          s.plan.rank_faults[0].factor = 3;
          s.seed = seed;
          const RunResult r = *run(s, std::make_shared<AsMatrix>(*make_objective(s), 3));
          CHECK(r.outcome.exchanges > 20u);
          CHECK(r.outcome.conserved_error < 1e-12 + r.outcome.broken_after_norm);
          exact += r.outcome.broken_after_norm == 0;
          ++runs;
        }
      }
    }
  }
  CHECK(exact > runs / 2);
}

TEST_CASE("ranks that step together hand in together what they have done when the time is over") {
  for (const std::string method : {"d_psgd", "all_reduce", "gradient_tracking"}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(method << " seed " << seed);
      Settings s = descending(method);
      s.speed_spread = 0.3;
      s.gradients = 0;
      s.until_s = 40.5;
      const RunResult r = simulate_one(s, seed);
      CHECK(r.outcome.quiet);
      CHECK_FALSE(r.outcome.conserved_error >= 1e-12);  // NaN: not all were in the last round
      std::set<uint64_t> rounds;
      for (const CommunicatorReport& c : r.outcome.communicators)
        rounds.insert(c.counts.applied);
      CHECK(*rounds.rbegin() - *rounds.begin() <= 1u);
      CHECK(*rounds.begin() >= 5u);
      if (method != "gradient_tracking") CHECK(r.outcome.conserved_error < 1e-12);
      for (int rank = 0; rank < kRanks && method == "all_reduce"; ++rank)
        CHECK(apart(x_of(r, rank), x_of(r, 0)) == 0);
    }
  }
}

TEST_CASE("the time's end hands in what a rank alone has done of a round") {
  Settings s = descending("a2cid2", "chain");
  s.ranks = s.objective.ranks = 1;
  s.gradients = 0;
  s.until_s = 17.5;  // two rounds, and three steps
  s.objective.zeta2 = 0;
  Numbers x = start_of(s);
  Loop loop = loops_of(s).front();
  Outer outer;
  for (const uint64_t steps : {7u, 7u, 3u}) {
    Numbers g = x;
    const Numbers moved = loop.after(x, steps);
    for (size_t k = 0; k < kDim; ++k)
      g[k] -= moved[k];
    outer.step(g, x);
  }
  const RunResult r = simulate_one(s, 1);
  CHECK(r.outcome.gradients == 17u);
  CHECK(apart(x_of(r, 0), x) < 1e-12);
}

TEST_CASE("where no rank has begun a round as the time ends there is no step of momentum alone") {
  for (const std::string method : {"all_reduce", "d_psgd", "gradient_tracking", "qgm", "d2", "sgp",
                                   "choco", "noloco", "gasloc"}) {
    INFO(method);
    Settings s = descending(method);
    s.objective.zeta2 = 0;
    s.objective.noise = 0;
    s.link = {1e-3, 0.5, 1e-3, 0};
    if (method == "choco") s.rule.compress = "identity";
    s.gradients = 21 * kRanks;
    const RunResult whole = simulate_one(s, 1);
    s.gradients = 0;
    s.until_s = 21.5;  // three rounds and their messages, and not one step more
    const RunResult r = simulate_one(s, 1);
    CHECK(r.outcome.gradients == 21u * kRanks);
    for (int rank = 0; rank < kRanks; ++rank)
      CHECK(apart(x_of(r, rank), x_of(whole, rank)) < 1e-12);
  }
}

TEST_CASE("ranks of random pairs, of push-sum and of all-reduce are quiet soon after the time") {
  for (const std::string method : {"sgp", "noloco", "gasloc", "all_reduce", "d_psgd"}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      INFO(method << " seed " << seed);
      Settings s = descending(method);
      s.speed_spread = 0.5;
      s.gradients = 0;
      s.until_s = 61.7;
      s.outer_lr = 0.4, s.outer_momentum = 0.5;
      CHECK(simulate_one(s, seed).outcome.quiet);
    }
  }
}

TEST_CASE("messages, exchanges and patience go by outer steps") {
  Settings s = descending("d_psgd");
  s.gradients = 140 * kRanks;
  s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3})};
  s.plan.rank_faults[0].factor = 3;
  CHECK(simulate_one(s, 1).outcome.frames == 20u * 2 * kRanks);
  s = descending("a2cid2");
  s.gradients = 700 * kRanks;
  for (const Pairing pairing : {Pairing::free, Pairing::poisson}) {
    s.pairing = pairing;
    const double of_rank = 2 * static_cast<double>(simulate_one(s, 1).outcome.exchanges) / kRanks;
    CHECK(of_rank == Approx(100).epsilon(0.15));
  }
}

TEST_CASE("a pool counts inner steps, and what is left of rounds is handed in") {
  for (const Pacing pacing : {Pacing::greedy, Pacing::poisson}) {
    Settings s = descending("a2cid2");
    s.pacing = pacing;
    s.share = Share::pool;
    s.gradients = 500;
    s.plan.rank_faults = {rank_fault(RankFaultKind::slow, {3})};
    s.plan.rank_faults[0].factor = 4;
    const RunResult r = simulate_one(s, 1);
    CHECK(r.outcome.gradients >= 500u);
    CHECK(r.outcome.gradients <= 500u + kRanks);
    CHECK(r.outcome.conserved_error < 1e-12);
    CHECK(gradients_of(r, 3) < gradients_of(r, 0) / 2);
  }
}

TEST_CASE("the first steps of a rank that comes while others train are shorter") {
  const auto layout = ParameterLayout::flat(1, DType::f64);
  const RuleSettings plain;
  const Numbers zero{0}, one{1};
  const auto rule = method_named("ad_psgd").make({0, 1, layout, {}, plain, view(zero)});
  LocalSteps local({}, layout, {4, 0.7, {}});
  local.begin(0, *rule);
  local.warm_up();
  double before = 0;
  for (const double part : {0.25, 0.5, 0.75, 1.0, 1.0}) {
    local.step(0.1, view(one), {});
    const double now = *local.front().as<double>();
    CHECK(now - before == Approx(-0.1 * part));
    before = now;
  }
}

TEST_CASE("what the inner steps have done stays as it is where an exchange moves the rank") {
  const auto layout = ParameterLayout::flat(2, DType::f64);
  const RuleSettings plain;
  const Numbers start{5, -3}, g{1, 2}, jump{-10, 4};
  const auto rule = method_named("ad_psgd").make({0, 1, layout, {}, plain, view(start)});
  LocalSteps local({}, layout, {4, 0.7, {}});
  local.begin(0, *rule);
  local.step(0.5, view(g), {});
  rule->on_gradient(0, 1, view(jump), {});
  local.follow(0, *rule);
  CHECK(local.base().as<double>()[0] == 15);
  CHECK(local.base().as<double>()[1] == -7);
  CHECK(local.front().as<double>()[0] == 14.5);
  CHECK(local.front().as<double>()[1] == -8);
  CHECK(local.taken() == 1u);
}

TEST_CASE("inner steps are taken near x as exchanges have moved it, in the middle of a round too") {
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    INFO(method);
    Settings s = descending(method);
    s.inner_steps = 50;
    s.gradients = 500 * kRanks;
    const auto watched = std::make_shared<Watched>();
    const auto r = run(s, watched);
    REQUIRE(r);
    CHECK(r->outcome.conserved_error < 1e-12);
    for (const Numbers& places : watched->places) {
      size_t moved_within = 0;
      for (size_t k = 0; k + 1 < places.size(); ++k)
        moved_within += k / 50 == (k + 1) / 50 && places[k] != places[k + 1];
      CHECK(moved_within > 3u);
    }
  }
}

/// Rank 0 descends by one number a gradient, and rank 1 stays where exchanges move it.
class Leader final : public OneNumber {
 public:
  static constexpr uint64_t kRound = 50, kWithin = 10;

  void initial_point(int, Vec x) const override { *x.as<double>() = 0; }
  double gradient(int, int rank, uint64_t number, ConstVec x, Vec g) override {
    const double place = *x.as<double>();
    if (rank == 0) leader_ = place, within_ = number % kRound >= kWithin;
    met_within += rank == 1 && within_ && std::abs(place - leader_) <= 2;
    *g.as<double>() = rank == 0 ? 1 : 0;
    return 0;
  }

  int met_within = 0;  // gradients of rank 1 beside rank 0, where that one is within a round

 private:
  double leader_ = 0;
  bool within_ = false;
};

TEST_CASE("an exchange in the middle of a round averages the steps of that round too") {
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    INFO(method);
    Settings s = descending(method, "chain");
    s.ranks = 2;
    s.lr.peak = 1;
    s.rule.optimizer.momentum = 0;
    s.outer_lr = 1;
    s.outer_momentum = 0;
    s.inner_steps = Leader::kRound;
    s.gradients = 40 * Leader::kRound;
    const auto leader = std::make_shared<Leader>();
    const auto r = run(s, leader);
    REQUIRE(r);
    CHECK(r->outcome.conserved_error < 1e-12);
    CHECK(leader->met_within > 3);
  }
}

TEST_CASE("outer steps that are too large are named where a run diverges") {
  Settings s = descending("a2cid2");
  s.gradients = 2000 * kRanks;
  s.sample_s = 5;
  s.outer_lr = 30, s.outer_momentum = 0.9;
  const RunResult r = simulate_one(s, 1);
  REQUIRE(r.outcome.alarm);
  CHECK_THAT(r.outcome.alarm->line(),
             Catch::Contains("outer steps are too large: 30 times what 7 inner steps do, with "
                             "momentum 0.9; a smaller --outer-momentum or --outer-lr"));
}

TEST_CASE("inner and outer settings out of range are refused in a line") {
  const auto complaint = [](uint64_t steps, double lr, double momentum) {
    Settings s = descending("a2cid2");
    s.inner_steps = steps, s.outer_lr = lr, s.outer_momentum = momentum;
    const Status status = check(s);
    return status ? std::string() : status.error().message;
  };
  CHECK(complaint(1, 0, 0.9).empty());
  CHECK(complaint(0, 0, 0.9) == "inner-steps is 0, accepted: from 1 to 1000000");
  CHECK(complaint(1000001, 0, 0.9) == "inner-steps is 1000001, accepted: from 1 to 1000000");
  CHECK(complaint(2, -1, 0.9) == "outer-lr is -1, accepted: a number from 0");
  CHECK(complaint(2, std::nan(""), 0.9) == "outer-lr is nan, accepted: a number from 0");
  CHECK(complaint(2, 0, 1) == "outer-momentum is 1, accepted: a number from 0 to 0.999999");
}
