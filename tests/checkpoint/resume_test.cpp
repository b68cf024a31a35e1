// Runs on the virtual clock that are interrupted and go on from what was recorded of their ranks.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "actors/algorithms/method_registry.hpp"
#include "actors/run/fits.hpp"
#include "app/checkpoint/checkpoint_writer.hpp"
#include "app/checkpoint/go_on.hpp"
#include "app/checkpoint/place_ranks.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/counted.hpp"
#include "tests/run/as_matrix.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;
using grapevine::test::Counted;
using grapevine::test::make_counted;

namespace {

using Records = std::vector<RankRecordPtr>;

struct Recorded {
  RunResult result;
  std::vector<Records> checkpoints;
};

// Takes a checkpoint every so many seconds, into memory.
Recorded run_recorded(const Settings& s, double every_s, Resumption resumption = {},
                      std::shared_ptr<Objective> objective = nullptr) {
  Recorded recorded;
  if (objective == nullptr) {
    auto made = make_objective(s);
    REQUIRE(made);
    objective = *made;
  }
  RunHooks hooks;
  hooks.resumption = std::move(resumption);
  hooks.checkpoints.every_s = every_s;
  Records open;
  if (every_s > 0)
    hooks.checkpoints.write = [&](CheckpointPart part, const CheckpointOrders::Done& done) {
      if (part.rank) {
        open.push_back(std::move(part.rank));
      } else {
        recorded.checkpoints.push_back(std::exchange(open, {}));
      }
      done(true, "");
    };
  auto result = run(s, objective, std::move(hooks));
  REQUIRE(result);
  recorded.result = std::move(*result);
  return recorded;
}

uint64_t hash_after(const Settings& s, const Records& from,
                    std::shared_ptr<Objective> objective = nullptr) {
  return parameter_hash(run_recorded(s, 0, {from, 1}, std::move(objective)).result.outcome);
}

struct Case {
  const char* method;
  const char* topology = "ring";
  const char* compress = "";
  double gamma = 1;
};

const Case kMethods[] = {
    {"a2cid2"},
    {"a2cid2", "ring", "powergossip:rank=1"},
    {"ad_psgd"},
    {"ad_psgd", "ring", "powergossip:rank=1"},
    {"all_reduce"},
    {"choco", "ring", "top-k:0.1", 0.2},
    {"choco", "ring", "sign", 0.2},
    {"choco", "ring", "quantise:4", 0.2},
    {"d2", "torus:2x3"},
    {"d_psgd"},
    {"deepsqueeze", "ring", "top-k:0.1", 0.1},
    {"deepsqueeze", "ring", "quantise:8", 0.1},
    {"gasloc"},
    {"gradient_tracking"},
    {"mean_estimation", "chain"},
    {"moniqua", "ring", "modulo:20", 0.1},
    {"noloco"},
    {"powergossip", "ring", "powergossip:rank=1"},
    {"qgm"},
    {"relaysgd", "chain"},
    {"relaysgd_async", "chain"},
    {"relaysum_grad", "chain"},
    {"sgp"},
};

Settings quadratics(const Case& c, int ranks) {
  Settings s = free_gossip(ranks == 1 ? "chain" : c.topology, ranks, 0.2);
  const std::string method = c.method;
  s.method = method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = 40 * static_cast<uint64_t>(ranks);
  s.objective.objective = method == "mean_estimation" ? "mean" : "quadratic";
  s.objective.dim = 24;
  s.objective.noise = 0.1;
  s.objective.zeta2 = ranks > 1 ? 1 : 0;                  // one rank has nobody to disagree with
  if (c.compress == std::string("powergossip:rank=1")) {  // factors are those of matrices
    s.objective.objective = "matrix";
    s.objective.rows = 4;
    s.objective.columns = 6;
    if (method != "powergossip") s.until_s = 40;  // pairs have no gradients to end by
  }
  s.lr = {0.02, Schedule::cosine, 0.1};
  s.speed_spread = 0.2;
  s.rule.optimizer = {};
  s.rule.compress = c.compress;
  s.rule.gamma = c.gamma;
  s.weights = method == "d2" ? "lazy" : "metropolis";
  if (const Status possible = check(s); !possible) FAIL(possible.error().message);
  return s;
}

/// Of many ranks: all have gradients, and what is compressed by factors is a matrix.
struct ManyRanks {
  Settings settings;

  ManyRanks(const Case& c, uint64_t gradients_of_rank) : settings(quadratics(c, 6)) {
    settings.gradients = gradients_of_rank * 6;
    settings.until_s = 0;
    settings.lr = {0.05, Schedule::constant, 0};
    settings.objective.noise = 0;
    if (settings.objective.objective == "matrix") settings.objective.objective = "quadratic";
  }
  bool has_factors() const { return settings.rule.compress.starts_with("powergossip"); }
  std::shared_ptr<Objective> objective(const Settings& s) const {
    auto made = make_objective(s);
    REQUIRE(made);
    if (has_factors()) return std::make_shared<AsMatrix>(std::move(*made), 4);
    return std::move(*made);
  }
  std::shared_ptr<Objective> objective() const { return objective(settings); }
};

const OptimizerSettings kOptimizers[] = {
    {0.9, 1e-3, true, OptimizerKind::sgd},
    {0.9, 1e-3, false, OptimizerKind::adam},
    {0.9, 1e-3, false, OptimizerKind::adamw},
};

/// Every method, and each that compresses with a compressor.
const Case kOfMany[] = {
    {"a2cid2"},
    {"a2cid2", "ring", "powergossip:rank=1"},
    {"ad_psgd"},
    {"ad_psgd", "ring", "powergossip:rank=1"},
    {"all_reduce"},
    {"choco", "ring", "top-k:0.1", 0.2},
    {"d2", "torus:2x3"},
    {"d_psgd"},
    {"deepsqueeze", "ring", "quantise:8", 0.1},
    {"gasloc"},
    {"gradient_tracking"},
    {"mean_estimation", "binary-tree"},
    {"moniqua", "ring", "modulo:20", 0.1},
    {"noloco"},
    {"powergossip", "ring", "powergossip:rank=1"},
    {"qgm"},
    {"relaysgd", "binary-tree"},
    {"relaysgd_async", "binary-tree"},
    {"relaysum_grad", "binary-tree"},
    {"sgp"},
};

Settings without_noise(const Case& c, int ranks, uint64_t gradients_of_rank) {
  Settings s = quadratics(c, ranks);
  s.gradients = gradients_of_rank * static_cast<uint64_t>(ranks);
  s.lr = {0.05, Schedule::constant, 0};
  s.objective.noise = 0;
  return s;
}

// To the bit, at each of its moments.
void check_interrupted(const Settings& s) {
  const uint64_t whole = parameter_hash(run_recorded(s, 0).result.outcome);
  const Recorded recorded = run_recorded(s, 3.7);
  CHECK(parameter_hash(recorded.result.outcome) == whole);
  REQUIRE(recorded.checkpoints.size() >= 8);
  for (const Records& from : recorded.checkpoints) {
    REQUIRE(from.size() == 1);
    INFO("from gradient " << from.front()->gradients);
    CHECK(hash_after(s, from) == whole);
  }
}

}  // namespace

TEST_CASE("one rank that is interrupted ends as it would have, by every method and compressor") {
  std::set<std::string> methods;
  for (const Case& c : kMethods) {
    INFO(c.method << ' ' << c.compress);
    methods.insert(c.method);
    check_interrupted(quadratics(c, 1));
  }
  CHECK(methods.size() == all_methods().size());
}

TEST_CASE(
    "one rank that is interrupted ends as it would have, by each method with each optimizer") {
  for (const Method& method : all_methods()) {
    if (!method.any_optimizer) continue;
    const auto found = std::find_if(std::begin(kMethods), std::end(kMethods), [&](const Case& c) {
      return c.method == std::string(method.name);
    });
    REQUIRE(found != std::end(kMethods));
    for (const OptimizerSettings& optimizer : kOptimizers) {
      INFO(method.name << ' ' << static_cast<int>(optimizer.kind) << ' ' << optimizer.nesterov);
      Settings s = quadratics(*found, 1);
      s.rule.optimizer = optimizer;
      check_interrupted(s);
    }
  }
}

TEST_CASE("one rank that is interrupted within its inner steps ends as it would have, by each") {
  for (const Case& c : kMethods) {
    for (const uint64_t steps : {1u, 7u}) {
      for (const OptimizerSettings& optimizer : kOptimizers) {
        INFO(c.method << ' ' << c.compress << ' ' << steps << " steps of "
                      << static_cast<int>(optimizer.kind));
        Settings s = quadratics(c, 1);
        s.rule.optimizer = optimizer;
        s.inner_steps = steps;
        s.outer_lr = 0.4;
        check_interrupted(s);
      }
    }
  }
}

TEST_CASE("many ranks that are interrupted within their inner steps end alike, by each method") {
  for (const Case& c : kOfMany) {
    for (const uint64_t steps : {1u, 7u}) {
      INFO(c.method << ' ' << c.compress << ' ' << steps << " steps");
      const ManyRanks many(c, 60);
      Settings s = many.settings;
      s.inner_steps = steps;
      s.outer_lr = 0.4, s.outer_momentum = 0.5;
      const Recorded recorded = run_recorded(s, 13, {}, many.objective(s));
      REQUIRE(recorded.checkpoints.size() >= 3);
      for (const Records& from : recorded.checkpoints) {
        const RunResult resumed = run_recorded(s, 0, {from, 1}, many.objective(s)).result;
        CHECK(parameter_hash(resumed.outcome) == hash_after(s, from, many.objective(s)));
        CHECK(resumed.outcome.gradients == s.gradients);
      }
    }
  }
}

TEST_CASE(
    "a record without inner steps is refused where ranks take some, and names what is missing") {
  Settings s = without_noise({"a2cid2"}, 2, 40);
  const Recorded recorded = run_recorded(s, 9);
  s.inner_steps = 7;
  s.outer_momentum = 0;
  const Status fit = fits(s, **make_objective(s), {recorded.checkpoints.front(), 1});
  REQUIRE_FALSE(fit);
  CHECK_THAT(fit.error().message, Catch::Contains("rank 0 has no \"front\""));
}

TEST_CASE("one rank that is interrupted ends as it would have, by every optimizer and schedule") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    for (const bool nesterov : {false, true}) {
      for (const Schedule schedule : {Schedule::constant, Schedule::step, Schedule::cosine}) {
        INFO(static_cast<int>(kind) << ' ' << nesterov << ' ' << static_cast<int>(schedule));
        Settings s = quadratics({"a2cid2"}, 1);
        s.rule.optimizer = {0.9, 1e-3, nesterov, kind};
        s.lr.schedule = schedule;
        check_interrupted(s);
      }
    }
  }
}

TEST_CASE("two resumptions of many ranks are the same to the bit, and end near the optimum") {
  std::set<std::string> methods;
  for (const Case& c : kOfMany) {
    INFO(c.method << ' ' << c.compress);
    methods.insert(c.method);
    const ManyRanks many(c, 150);
    const Settings& s = many.settings;
    const Recorded recorded = run_recorded(s, 29, {}, many.objective());
    REQUIRE(recorded.checkpoints.size() >= 4);
    const auto objective = many.objective();
    const auto off = [&](const RunResult& r) {
      return objective->evaluate(0, -1, mean_parameters(r.outcome)).loss;
    };
    const double whole = off(recorded.result);
    for (const Records& from : recorded.checkpoints) {
      REQUIRE(from.size() == 6);
      INFO("from gradient " << from.front()->gradients);
      const RunResult resumed = run_recorded(s, 0, {from, 1}, many.objective()).result;
      CHECK(parameter_hash(resumed.outcome) == hash_after(s, from, many.objective()));
      CHECK(resumed.outcome.gradients == s.gradients);
      CHECK(off(resumed) < 2 * whole + 0.02);
      CHECK(consensus_distance(resumed.outcome) <
            2 * consensus_distance(recorded.result.outcome) + 0.1);
    }
  }
  CHECK(methods.size() == all_methods().size());
}

TEST_CASE("the factors of an edge go on at both of its ends, as they were recorded") {
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    INFO(method);
    const ManyRanks many({method, "ring", "powergossip:rank=1"}, 60);
    const Recorded recorded = run_recorded(many.settings, 29, {}, many.objective());
    REQUIRE_FALSE(recorded.checkpoints.empty());
    const Records& from = recorded.checkpoints.front();
    Settings moment = many.settings;
    moment.until_s = 0.02;  // before any exchange could end
    const Recorded resumed = run_recorded(moment, 0.01, {from, 1}, many.objective());
    REQUIRE_FALSE(resumed.checkpoints.empty());
    size_t factors = 0, iterations = 0;
    for (size_t rank = 0; rank < from.size(); ++rank) {
      const RankRecord &before = *from[rank], &after = *resumed.checkpoints.front()[rank];
      for (const RankRecord::Vector& v : before.vectors) {
        if (v.name.find("of the edge to") == std::string::npos) continue;
        const auto same = std::find_if(after.vectors.begin(), after.vectors.end(),
                                       [&](const auto& w) { return w.name == v.name; });
        REQUIRE(same != after.vectors.end());
        CHECK(square_distance({}, v.values, same->values) == 0);
        ++factors;
      }
      for (const RankRecord::Number& n : before.numbers) {
        if (n.name.find("iterations") == std::string::npos) continue;
        const auto same = std::find_if(after.numbers.begin(), after.numbers.end(),
                                       [&](const auto& m) { return m.name == n.name; });
        REQUIRE(same != after.numbers.end());
        CHECK(same->bits == n.bits);
        iterations += n.bits;
      }
    }
    CHECK(factors == 6 * 2 * 2);  // P and Q of each rank's two edges
    CHECK(iterations > 100);
  }
}

TEST_CASE("two resumptions of many ranks are the same to the bit, with each optimizer") {
  for (const Case& c : {Case{"ad_psgd"}, Case{"d_psgd"}, Case{"sgp"}, Case{"all_reduce"},
                        Case{"choco", "ring", "sign", 0.2}, Case{"relaysgd_async", "binary-tree"},
                        Case{"a2cid2", "ring", "powergossip:rank=1"}}) {
    for (const OptimizerSettings& optimizer : kOptimizers) {
      INFO(c.method << ' ' << static_cast<int>(optimizer.kind) << ' ' << optimizer.nesterov);
      ManyRanks many(c, 60);
      many.settings.rule.optimizer = optimizer;
      const Recorded recorded = run_recorded(many.settings, 29, {}, many.objective());
      REQUIRE_FALSE(recorded.checkpoints.empty());
      const Records& from = recorded.checkpoints.front();
      const uint64_t once = hash_after(many.settings, from, many.objective());
      CHECK(once == hash_after(many.settings, from, many.objective()));
      Records cold;  // without what the optimizer keeps it is another run
      for (const RankRecordPtr& record : from) {
        const auto copy = std::make_shared<RankRecord>();
        copy->rank = record->rank;
        copy->gradients = record->gradients;
        copy->numbers = record->numbers;
        copy->edges = record->edges;
        copy->statistics = Buffer(0, DType::f32);
        for (const RankRecord::Vector& v : record->vectors) {
          Buffer values(v.values.size(), v.values.dtype());
          const bool is_optimizers = v.name.find("moment") != std::string::npos;
          scale({}, is_optimizers ? 0 : 1, v.values, values);
          copy->vectors.push_back({v.name, std::move(values)});
        }
        cold.push_back(copy);
      }
      CHECK(once != hash_after(many.settings, cold, many.objective()));
    }
  }
}

namespace {

// The manifest that the files of such a checkpoint would have.
CheckpointManifest manifest_of(const Records& records, const std::vector<DataCut>& cuts) {
  RunIdentity run{1, 2, "", "{}", "", Counted::kBatch, 0, "", 0, cuts};
  CheckpointWriter writer("run/checkpoints", {}, run);
  writer.begin(1);
  for (const RankRecordPtr& record : records)
    writer.rank(record);
  for (const DiskEffect& effect : writer.commit(1, "ring", "now"))
    if (const auto* file = std::get_if<WriteFile>(&effect)) return *parse_manifest("", file->head);
  FAIL("no manifest is written");
  return {};
}

// The number in the line that a resumption prints; 0: it prints none.
double printed_drift(const std::vector<std::string>& told) {
  const std::string words = "the sum that gossip conserves has an error of at most ";
  for (const std::string& line : told)
    if (line.starts_with(words)) return std::stod(line.substr(words.size()));
  return 0;
}

// As consensus_distance has it, of x as recorded.
double distance_of(const Records& records) {
  Outcome outcome;
  for (const RankRecordPtr& record : records)
    outcome.parameters.push_back({record->rank, {}, {record, &record->vectors.front().values}});
  return consensus_distance(outcome);
}

struct Spread {
  double mean = 0, deviation = 0;

  explicit Spread(const std::vector<double>& of) {
    for (const double x : of)
      mean += x / static_cast<double>(of.size());
    for (const double x : of)
      deviation += (x - mean) * (x - mean) / static_cast<double>(of.size() - 1);
    deviation = std::sqrt(deviation);
  }
};

}  // namespace

TEST_CASE("many ranks that are interrupted at any of ten moments end within the spread of seeds") {
  for (const Case& c : kOfMany) {
    INFO(c.method << ' ' << c.compress);
    ManyRanks many(c, 100);
    Settings& s = many.settings;
    s.objective.noise = 0.1;
    const auto off = [&](const Settings& of, const RunResult& r) {
      return many.objective(of)->evaluate(0, -1, mean_parameters(r.outcome)).loss;
    };
    std::vector<double> losses, distances;
    for (uint64_t seed = 101; seed <= 112; ++seed) {
      Settings other = s;
      other.seed = other.objective.seed = seed;
      const RunResult whole = run_recorded(other, 0, {}, many.objective(other)).result;
      losses.push_back(off(other, whole));
      distances.push_back(consensus_distance(whole.outcome));
    }
    const Spread loss(losses), distance(distances);
    const Method& method = method_named(s.method);
    const bool in_rounds = method.pattern == Pattern::rounds && method.waits;
    const double of_shift = method.partners ? distance.mean : 0;  // which was the last one?
    // The one relays steps alone: its ranks never agree again. The other has sums from the start
    // on, and its relays fill up twice: twice as far off, four times in squares.
    const bool never_agrees = s.method == "relaysum_grad", sums = s.method == "mean_estimation";
    const Recorded recorded = run_recorded(s, 8.7, {}, many.objective());
    REQUIRE(recorded.checkpoints.size() >= 10);
    for (size_t moment = 0; moment < 10; ++moment) {
      INFO("moment " << moment);
      const Records& from = recorded.checkpoints[moment];
      const RankPlaces same{0, s.ranks, s.ranks};
      PlacedRanks placed = place_ranks(from, same, same);
      if (in_rounds) level_rounds({manifest_of(from, {}).ranks}, placed, same, same);
      const RunResult resumed = run_recorded(s, 0, {placed.ranks, 1}, many.objective()).result;
      CHECK(off(s, resumed) == Approx(loss.mean).margin(3 * loss.deviation));
      const double kept = never_agrees ? 2 * distance_of(from) : sums ? 3 * distance.mean : 0;
      // Factors of an edge begin anew, and of ten exchanges a rank some find them first.
      const double deviations = method.pattern == Pattern::pairwise && c.compress[0] != 0 ? 4 : 3;
      CHECK(consensus_distance(resumed.outcome) ==
            Approx(distance.mean).margin(deviations * distance.deviation + of_shift + kept));
    }
  }
}

TEST_CASE("ranks in rounds go on from the lowest, however long their checkpoint took to write") {
  const auto levelled = [](const std::vector<std::vector<uint64_t>>& processes,
                           bool in_step = false) {
    std::vector<std::vector<RankFile>> recorded;
    PlacedRanks placed;
    for (const std::vector<uint64_t>& process : processes) {
      recorded.emplace_back();
      for (const uint64_t gradients : process) {
        const auto record = std::make_shared<RankRecord>();
        record->rank = static_cast<int>(placed.ranks.size());
        record->gradients = gradients;
        placed.ranks.push_back(record);
        recorded.back().push_back({});
        recorded.back().back().rank = record->rank;
        recorded.back().back().gradients = gradients;
      }
    }
    const RankPlaces all{0, static_cast<int>(placed.ranks.size()),
                         static_cast<int>(placed.ranks.size())};
    level_rounds(recorded, placed, all, all, in_step);
    std::vector<uint64_t> gradients;
    for (const RankRecordPtr& rank : placed.ranks)
      gradients.push_back(rank->gradients);
    return gradients;
  };
  using Counts = std::vector<uint64_t>;
  CHECK(levelled({{3524, 3657, 3706, 3771}}) == Counts{3524, 3524, 3524, 3524});
  CHECK(levelled({{3524, 3771}, {3600, 3900}}) == Counts{3524, 3524, 3524, 3524});
  // The first process had stopped long before.
  CHECK(levelled({{1000, 1050}, {3600, 3900}}) == Counts{1000, 1050, 3600, 3600});
  CHECK(levelled({{1000, 1050}, {3600, 3900}}, true) == Counts{3600, 3600, 3600, 3600});
}

TEST_CASE("ranks of an all-reduce are equal again when their records are of different rounds") {
  for (const OptimizerSettings& optimizer : kOptimizers) {
    INFO(static_cast<int>(optimizer.kind));
    Settings s = quadratics({"all_reduce"}, 4);
    s.gradients = 400;
    s.rule.optimizer = optimizer;
    const Recorded recorded = run_recorded(s, 7.3);
    REQUIRE(recorded.checkpoints.size() >= 5);
    Records mixed;
    for (const size_t moment : {3, 0, 4, 1})
      mixed.push_back(recorded.checkpoints[moment][mixed.size()]);
    const RankPlaces same{0, s.ranks, s.ranks};
    PlacedRanks placed = place_ranks(mixed, same, same);
    level_rounds({manifest_of(mixed, {}).ranks}, placed, same, same, true);
    const RunResult resumed = run_recorded(s, 0, {placed.ranks, 1}).result;
    CHECK(resumed.outcome.gradients == s.gradients);
    CHECK(consensus_distance(resumed.outcome) == 0);
  }
}

TEST_CASE("a run goes on with more ranks and with fewer, and does the rest of its gradients") {
  for (const Case& c : {Case{"a2cid2"}, Case{"ad_psgd"}, Case{"d_psgd"}, Case{"sgp"}}) {
    const Settings s = without_noise(c, 6, 400);
    const Recorded recorded = run_recorded(s, 190);
    REQUIRE(recorded.checkpoints.size() >= 2);
    const Records& from = recorded.checkpoints.front();
    uint64_t taken = 0;
    for (const RankRecordPtr& rank : from)
      taken += rank->gradients;
    for (const int ranks : {3, 4, 9, 12}) {
      INFO(c.method << " on " << ranks);
      Settings other = s;
      other.ranks = ranks;
      PlacedRanks placed = place_ranks(from, {0, 6, 6}, {0, ranks, ranks});
      CHECK(placed.ranks.size() == static_cast<size_t>(ranks));
      CHECK_FALSE(placed.told.empty());
      const uint64_t before = gradients_of({placed.ranks, 1});
      const double share = static_cast<double>(before) / static_cast<double>(taken);
      CHECK(share == Approx(1).margin(0.15));  // ranks are not equally fast
      const RunResult resumed = run_recorded(other, 0, {placed.ranks, 1}).result;
      CHECK(resumed.outcome.parameters.size() == static_cast<size_t>(ranks));
      CHECK(resumed.outcome.gradients == s.gradients / static_cast<uint64_t>(ranks) * ranks);
      const auto objective = make_objective(other);
      const double off = (*objective)->evaluate(0, -1, mean_parameters(resumed.outcome)).loss;
      CHECK(off < 0.05);
    }
  }
}

TEST_CASE("ranks without a place are left out, and by how much that moves the mean is told") {
  Records four;
  for (int rank = 0; rank < 4; ++rank) {
    auto record = std::make_shared<RankRecord>();
    record->rank = rank;
    record->gradients = 90;
    record->statistics = Buffer(0, DType::f32);
    for (const char* name : {"x", "x~", "momentum"}) {
      Buffer values(2, DType::f64);
      values.vec().as<double>()[0] = rank;
      values.vec().as<double>()[1] = *name;
      record->vectors.push_back({name, std::move(values)});
    }
    record->edges.push_back({(rank + 1) % 4, 0, 0, 7, 1, 1});
    four.push_back(record);
  }
  const auto at = [](const RankRecordPtr& r, size_t vector, size_t k) {
    return r->vectors[vector].values.vec().as<double>()[k];
  };
  const PlacedRanks same = place_ranks(four, {0, 4, 4}, {0, 4, 4});
  CHECK(same.ranks == four);
  CHECK(same.told.empty());
  const PlacedRanks fewer = place_ranks(four, {0, 4, 4}, {0, 2, 2});
  REQUIRE(fewer.ranks.size() == 2);
  CHECK(fewer.ranks[1]->gradients == 180);
  CHECK(fewer.ranks[1]->edges.empty());
  CHECK(at(fewer.ranks[1], 0, 0) == 1);
  REQUIRE(fewer.told.size() == 2);
  CHECK_THAT(fewer.told[0],
             Catch::Contains("2 ranks have no place") && Catch::Contains("moves by 1 in norm"));
  const PlacedRanks more = place_ranks(four, {0, 4, 4}, {0, 6, 6});
  REQUIRE(more.ranks.size() == 6);
  CHECK(more.ranks[5]->gradients == 60);
  CHECK(at(more.ranks[5], 0, 0) == 1);
  CHECK(at(more.ranks[5], 1, 1) == 'x');  // x~ is x, and nothing of the other's x~
  CHECK(at(more.ranks[5], 2, 1) == 'm');
  Records gap = four;
  gap.erase(gap.begin() + 1);
  const PlacedRanks gone = place_ranks(gap, {0, 4, 4}, {0, 4, 4});
  CHECK(gone.ranks[0] == four[0]);
  CHECK(at(gone.ranks[1], 0, 0) == 2);
  CHECK(gone.told ==
        std::vector<std::string>{"rank 1 has no record and starts with the x of rank 2"});
}

namespace {

/// A life of the run, from its records (none: the start) to a checkpoint, by which `times` has
/// risen, sample by sample. `checks`: what has been taken comes again only after the rest.
Records live(const Settings& s, const std::string& partition, const Records& from,
             const std::vector<DataCut>& cuts, double until_s, bool checks,
             std::vector<int>& times) {
  const auto counted = make_counted(s, partition);
  if (!cuts.empty()) REQUIRE(counted->go_on_in_data(cuts));
  const Recorded life = run_recorded(s, until_s, {from, 1}, counted);
  REQUIRE_FALSE(life.checkpoints.empty());
  const Records& records = life.checkpoints.front();
  REQUIRE(records.size() == static_cast<size_t>(s.ranks));
  const int most = *std::max_element(times.begin(), times.end());
  for (const RankRecordPtr& record : records) {
    const uint64_t first = from.empty() ? 0 : from[static_cast<size_t>(record->rank)]->gradients;
    const std::vector<uint32_t> share = counted->partition().share(record->rank);
    for (const uint32_t row : counted->walked(record->rank, first, record->gradients)) {
      if (++times[row] <= most || !checks) continue;
      for (const uint32_t own : share)
        if (times[own] < most) FAIL("rank " << record->rank << " takes " << row << " again");
    }
  }
  return records;
}

}  // namespace

TEST_CASE(
    "on other numbers of ranks a run takes what is left of the pass at hand before the next") {
  for (const char* partition : {"iid", "label", "contiguous"}) {
    INFO(partition);
    Settings s = quadratics({"a2cid2"}, 4);
    s.gradients = 100000;
    s.until_s = 60;
    std::vector<int> times(Counted::kSamples, 0);
    std::vector<DataCut> cuts;
    Records records = live(s, partition, {}, {}, 8, false, times);
    CHECK(std::accumulate(times.begin(), times.end(), 0) > 30);
    CHECK(*std::max_element(times.begin(), times.end()) == 1);  // half a pass
    for (const int ranks : {6, 3}) {
      const RankPlaces were{0, s.ranks, s.ranks}, are{0, ranks, ranks};
      const PlacedRanks placed = place_ranks(records, were, are);
      cuts.push_back(cut_of(manifest_of(records, cuts).ranks, placed, were, are));
      s.ranks = s.objective.ranks = ranks;
      records = live(s, partition, placed.ranks, cuts, ranks == 6 ? 4 : 30, true, times);
    }
    // The last life has ended the pass at hand: nothing of it was left out.
    CHECK(*std::min_element(times.begin(), times.end()) >= 1);
  }
}

TEST_CASE("the sum that gossip conserves is never off by more than a resumption prints") {
  struct Conserving {
    const char *method, *compress, *objective;
    size_t vectors;  // whose sum is conserved: x, or x and x~
  };
  for (const Conserving& c :
       {Conserving{"a2cid2", "", "consensus", 2}, Conserving{"ad_psgd", "", "consensus", 1},
        Conserving{"a2cid2", "powergossip:rank=1", "matrix", 2},
        Conserving{"ad_psgd", "powergossip:rank=1", "matrix", 1}}) {
    INFO(c.method << ' ' << c.compress);
    Settings s = quadratics({c.method, "ring", c.compress}, 8);
    s.lr.peak = 0;  // nothing but gossip changes anything
    s.objective.objective = c.objective;
    s.gradients = 0;
    s.link.latency_s = 0.2;
    s.link.jitter = 0.9;
    s.until_s = 40;
    const Recorded recorded = run_recorded(s, 1.3);
    REQUIRE(recorded.checkpoints.size() > 20);
    const auto objective = make_objective(s);
    std::vector<double> begin(24, 0.0);
    for (int rank = 0; rank < 8; ++rank) {
      Buffer x((*objective)->layout().size(), DType::f64);
      (*objective)->initial_point(rank, x);
      for (size_t k = 0; k < begin.size(); ++k)
        begin[k] += static_cast<double>(c.vectors) * x.vec().as<double>()[k];
    }
    int off = 0;
    for (const Records& records : recorded.checkpoints) {
      std::vector<double> now(24, 0.0);
      for (const RankRecordPtr& r : records)
        for (size_t v = 0; v < c.vectors; ++v)
          for (size_t k = 0; k < now.size(); ++k)
            now[k] += r->vectors[v].values.vec().as<double>()[k];
      double square = 0;
      for (size_t k = 0; k < now.size(); ++k)
        square += std::pow(now[k] - begin[k], 2);
      std::vector<std::string> told;
      tell_drift(manifest_of(records, {}).ranks, told);
      CHECK(std::sqrt(square) <= printed_drift(told) + 1e-9);
      off += std::sqrt(square) > 1e-6;
    }
    CHECK(off > 5);  // exchanges that were half done were seen
  }
}

TEST_CASE("a record of another model, or without all that a rule keeps, does not fit") {
  const Settings s = quadratics({"a2cid2"}, 2);
  const Recorded recorded = run_recorded(s, 9);
  const auto objective = make_objective(s);
  const Resumption good{recorded.checkpoints.front(), 1};
  CHECK(fits(s, **objective, good));
  Settings adam = s, larger = s;
  adam.rule.optimizer.kind = OptimizerKind::adam;
  larger.objective.dim = 25;
  CHECK_FALSE(fits(adam, **objective, good));
  CHECK_FALSE(fits(larger, **make_objective(larger), good));
  RunHooks hooks;
  hooks.resumption = good;
  CHECK_FALSE(run(larger, std::move(hooks)));
  CHECK_FALSE(fits(quadratics({"a2cid2"}, 1), **objective, good));
}
