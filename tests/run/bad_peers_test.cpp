// The cost of one bad rank of eight to the others under the guard (actors/guard): their loss,
// beside that of the same run in which this rank is paused from the start and keeps its edges.
//
//   bin/actors_runs_test "[measure]"                      the table of actors/guard/MEASURED.md
//   GRAPEVINE_SEED=17 bin/actors_runs_test "[measure]"    the same of that one seed
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "kernels/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"
#include "tests/seeds.hpp"

using namespace grapevine;

namespace {

constexpr int kRanks = 8;
constexpr int kBad = 3;
constexpr size_t kDim = 32;
constexpr double kLr = 0.05;

struct Bad {
  enum class Kind { absent, diverges, constant, noise, flipped, long_steps };
  Kind kind = Kind::absent;
  double times = 0;  // of the usual distance between two ranks, or of their usual step
  const char* name = "";
  double at_most = 1.4;  // the loss of the others, over that without it
};

// A bad rank that stays near is averaged, for example one with noise of ten usual distances.
constexpr Bad kBads[] = {
    {Bad::Kind::diverges, 0, "diverges by a tenth a step"},
    {Bad::Kind::constant, 1000, "one vector, 1000 usual distances away"},
    {Bad::Kind::noise, 10, "x + noise of 10 usual distances", 2.5},
    {Bad::Kind::noise, 100, "x + noise of 100"},
    {Bad::Kind::noise, 1e6, "x + noise of 1e6"},
    {Bad::Kind::flipped, 0, "steps with the sign flipped"},
    {Bad::Kind::long_steps, 100, "steps 100 times as long"},
};

struct Graph {
  const char* topology = "ring";
  double rate = 1;
  double until_s = 1000;  // a step takes a second
};

using Point = std::array<double, kDim>;

double length_of(const Point& p) {
  double squares = 0;
  for (const double v : p)
    squares += v * v;
  return std::sqrt(squares);
}

/// Eight quadratics with optima of their own. After 30 % of its steps kBad sends what it has not
/// come to by its data: its gradients lead its x to that.
class Quadratics final : public Objective {
 public:
  Quadratics(uint64_t seed, Bad bad, double steps) : seed_(seed), bad_(bad), steps_(steps) {
    Random random(seed, 0, Purpose::problem);
    Point centre = drawn(random);
    const double size = length_of(centre);
    for (double& v : centre)
      v *= 10 / size;
    for (Point& optimum : optima_) {
      optimum = drawn(random);
      for (size_t k = 0; k < kDim; ++k)
        optimum[k] = centre[k] + 0.3 * optimum[k];
    }
    away_ = direction(random);
  }

  const ParameterLayout& layout() const override { return layout_; }
  void initial_point(int, Vec x) const override { std::memset(x.data, 0, x.bytes()); }
  bool starts_alike() const override { return true; }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "quadratics"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    Point at, gradient;
    std::memcpy(at.data(), x.data, x.bytes());
    const bool lies = rank == kBad && static_cast<double>(index) >= 0.3 * steps_;
    if (lies) {
      gradient = bad_gradient(index, at);
    } else {
      gradient = own_gradient(rank, index, at);
      if (rank != kBad) see(rank, index, at, gradient);
    }
    std::memcpy(g.data, gradient.data(), g.bytes());
    return 1;
  }

  /// The mean loss of the honest ranks in the last 30 % of the run.
  double loss() const { return loss_ / samples_; }
  double worst_loss() const { return worst_; }  // at a time when kBad was bad

 private:
  static Point drawn(Random& random) {
    Point p;
    for (double& v : p)
      v = random.normal();
    return p;
  }
  static Point direction(Random& random) {
    Point p = drawn(random);
    const double size = length_of(p);
    for (double& v : p)
      v /= size;
    return p;
  }
  static double curvature(size_t k) { return 0.2 + 0.8 * static_cast<double>(k) / (kDim - 1); }

  Point own_gradient(int rank, uint64_t index, const Point& at) const {
    Random random(seed_, static_cast<uint32_t>(rank), Purpose::gradient_noise, index);
    Point g = drawn(random);
    for (size_t k = 0; k < kDim; ++k)
      g[k] += curvature(k) * (at[k] - optima_[static_cast<size_t>(rank)][k]);
    return g;
  }

  Point bad_gradient(uint64_t index, Point at) {
    if (usual_distance_ == 0) measure_honest();
    Point g = own_gradient(kBad, index, at);
    switch (bad_.kind) {
      case Bad::Kind::absent: return g;
      case Bad::Kind::diverges:
        for (size_t k = 0; k < kDim; ++k)
          g[k] = length_of(at) > 1e30 ? 0 : -0.1 * at[k] / kLr;
        return g;
      case Bad::Kind::constant:
        for (size_t k = 0; k < kDim; ++k)
          g[k] = (at[k] - mean_[k] - bad_.times * usual_distance_ * away_[k]) / kLr;
        return g;
      case Bad::Kind::noise: return towards_noise(index, at);
      case Bad::Kind::flipped:
        for (double& v : g)
          v = -v;
        return g;
      case Bad::Kind::long_steps: break;
    }
    const double size = length_of(g);
    for (double& v : g)
      v *= bad_.times * usual_step_ / size / kLr;
    return g;
  }

  // It trains as the others do, and another noise is added each time.
  Point towards_noise(uint64_t index, Point at) {
    for (size_t k = 0; k < kDim; ++k)
      at[k] -= noise_[k];
    Point g = own_gradient(kBad, index, at);
    Random random(seed_, kBad, Purpose::test, index);
    const Point next = direction(random);
    for (size_t k = 0; k < kDim; ++k) {
      const double noise = bad_.times * usual_distance_ * next[k];
      g[k] += (noise_[k] - noise) / kLr;
      noise_[k] = noise;
    }
    return g;
  }

  void see(int rank, uint64_t index, const Point& at, const Point& g) {
    last_[static_cast<size_t>(rank)] = at;
    usual_step_ += 0.01 * (kLr * length_of(g) - usual_step_);
    if (rank != 0 || static_cast<double>(index) < 0.3 * steps_) return;
    const double loss = honest_loss();
    worst_ = std::max(worst_, loss);
    if (static_cast<double>(index) < 0.7 * steps_) return;
    loss_ += loss;
    ++samples_;
  }

  /// Of the honest ranks: where they are, and the usual distance between two of them.
  void measure_honest() {
    mean_ = {};
    for (int r = 0; r < kRanks; ++r)
      for (size_t k = 0; k < kDim && r != kBad; ++k)
        mean_[k] += last_[static_cast<size_t>(r)][k] / (kRanks - 1);
    double squares = 0;
    for (int r = 0; r < kRanks; ++r)
      for (size_t k = 0; k < kDim && r != kBad; ++k)
        squares += std::pow(last_[static_cast<size_t>(r)][k] - mean_[k], 2);
    usual_distance_ = std::sqrt(2 * squares / (kRanks - 1));
  }

  /// The mean over the honest ranks of the mean of their losses at one's x.
  double honest_loss() const {
    double sum = 0;
    for (int r = 0; r < kRanks; ++r)
      for (int of = 0; of < kRanks; ++of)
        for (size_t k = 0; k < kDim && r != kBad && of != kBad; ++k) {
          const double off = last_[static_cast<size_t>(r)][k] - optima_[static_cast<size_t>(of)][k];
          sum += curvature(k) * off * off / 2;
        }
    return sum / (kRanks - 1) / (kRanks - 1);
  }

  ParameterLayout layout_ = ParameterLayout::flat(kDim, DType::f64);
  uint64_t seed_;
  Bad bad_;
  double steps_;
  std::array<Point, kRanks> optima_{}, last_{};
  Point away_{}, mean_{}, noise_{};
  double usual_distance_ = 0, usual_step_ = 0;
  double loss_ = 0, worst_ = 0;
  int samples_ = 0;
};

struct Honest {
  double loss = 0, worst = 0;
  bool is_finite = true;
};

Honest honest(const Graph& graph, Bad bad, uint64_t seed) {
  Settings s = free_gossip(graph.topology, kRanks, 0.05);
  s.rate = graph.rate;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.seed = seed;
  s.until_s = graph.until_s;
  s.objective.objective = "quadratic";
  s.objective.dim = kDim;
  s.lr = {kLr, Schedule::constant, 0};
  s.rule.optimizer = {};
  if (bad.kind == Bad::Kind::absent)
    s.plan.rank_faults = {rank_fault(RankFaultKind::pause, {kBad}, 0.01)};
  GV_CHECK(static_cast<bool>(check(s)));  // on threads, where no test may fail
  const auto objective = std::make_shared<Quadratics>(seed, bad, graph.until_s);
  const auto ran = run(s, objective, {});
  GV_CHECK(static_cast<bool>(ran));
  Honest found{objective->loss(), objective->worst_loss(), true};
  for (const RankParameters& p : ran->outcome.parameters)
    for (size_t k = 0; k < kDim && p.rank != kBad; ++k)
      found.is_finite &= std::isfinite(std::as_const(*p.x).vec().as<double>()[k]);
  return found;
}

struct Ratios {
  double mean = 0, most = 0, worst = 0;
  bool is_finite = true;
};

/// Over the seeds: the loss of the honest ranks over that without the bad one, and the worst
/// moment.
Ratios ratios(const Graph& graph, const Bad& bad, const std::vector<Honest>& without,
              uint64_t first) {
  std::vector<Honest> with(without.size());
  for_seeds(static_cast<int>(with.size()), [&](int k) {
    with[static_cast<size_t>(k - 1)] = honest(graph, bad, first + static_cast<uint64_t>(k) - 1);
  });
  Ratios r;
  for (size_t k = 0; k < with.size(); ++k) {
    const double ratio = with[k].loss / without[k].loss;
    r.mean += ratio / static_cast<double>(with.size());
    r.most = std::max(r.most, ratio);
    r.worst += with[k].worst / without[k].worst / static_cast<double>(with.size());
    r.is_finite &= with[k].is_finite && std::isfinite(ratio);
  }
  return r;
}

std::vector<Honest> without_it(const Graph& graph, test::Seeds seeds) {
  std::vector<Honest> all(seeds.last - seeds.first + 1);
  for_seeds(static_cast<int>(all.size()), [&](int k) {
    all[static_cast<size_t>(k - 1)] = honest(graph, {}, seeds.first + static_cast<uint64_t>(k) - 1);
  });
  return all;
}

}  // namespace

TEST_CASE("one bad rank of eight costs the others a part of their loss, and they stay finite") {
  for (const Graph& graph : {Graph{"ring", 1}, Graph{"complete", 1}}) {
    const auto without = without_it(graph, {1, 2});
    for (const Bad& bad : kBads) {
      const Ratios r = ratios(graph, bad, without, 1);
      INFO(bad.name << " on " << graph.topology << ": " << r.mean);
      CHECK(r.is_finite);
      CHECK(r.mean < bad.at_most);
    }
  }
}

TEST_CASE("what one bad rank of eight costs the others, by graph and rate", "[.][measure]") {
  const test::Seeds seeds = test::seeds_wanted(50);
  for (const Graph& graph :
       {Graph{"ring", 1}, Graph{"complete", 1}, Graph{"exponential", 1}, Graph{"ring", 0.02},
        Graph{"complete", 0.02}, Graph{"ring", 10, 160}}) {
    std::printf("%s, %g exchanges a step\n", graph.topology, graph.rate);
    const auto without = without_it(graph, seeds);
    for (const Bad& bad : kBads) {
      const Ratios r = ratios(graph, bad, without, seeds.first);
      std::printf("  %-38s mean %-7.3f most %-7.3f peak %.3g\n", bad.name, r.mean, r.most, r.worst);
      std::fflush(stdout);
      CHECK(r.is_finite);
    }
  }
}
