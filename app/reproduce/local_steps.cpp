// reproduce local-steps: outer steps on the sum of several steps of each rank, against loops.
//
// 16 ranks on the scalar problem of exact.cpp take 60 rounds of 5 steps at a rate of 0.1. theta is
// the start of a round, moved the result of its inner steps, g = theta - moved. The loops share
// only the gradients and the drawn matchings with the actors.
//
//   DiLoCo      v = mu v + mean g,  theta -= eta (mean g + mu v)         (arXiv 2311.08105)
//   local SGD   theta_i = sum_j W_ij moved_j                             (arXiv 1805.09767)
//   NoLoCo      d_i = mu d_i + eta ((moved_i + moved_j) / 2 - theta_i),  theta_i += d_i
//                                                                        (arXiv 2506.10911)
//   GASLoC      y_i = theta_i - eta g_i                                  (arXiv 2606.11081)
//               theta_i = (y_i + y_j) / 2 + gamma (y_i - y_i of the round before)
//
// SPARTA (Exo, 2025) averages a part of the numbers over all ranks after each step. 16 ranks take
// 60 steps on a quadratic of 60 numbers, of which a twentieth is averaged; the loop also shares the
// drawn places. Without steps the squared distance of the ranks from their mean is multiplied by 1
// - p, measured on matrices of 10,000 numbers.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/reproduce/runs.hpp"
#include "kernels/codecs/compressor.hpp"
#include "topologies/schedule.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kInner = 5, kOuterSteps = 60, kSeed = 1;
constexpr double kRate = 0.1, kTolerance = 1e-12;

using Numbers = std::vector<double>;  // one per rank

struct Loop {
  double eta = 0, mu = 0;
  Numbers theta, memory;  // v, d, or y of the last round
  uint64_t round = 0;
};

Numbers paired(const Numbers& y, uint64_t round) {
  Numbers mean(y.size());
  const int ranks = static_cast<int>(y.size());
  for (int i = 0; i < ranks; ++i) {
    const int j = matched(i, ranks, kSeed, round);
    mean[static_cast<size_t>(i)] = (y[static_cast<size_t>(i)] + y[static_cast<size_t>(j)]) / 2;
  }
  return mean;
}

void take_together(Loop& loop, const Numbers& moved) {
  const auto n = static_cast<double>(moved.size());
  double g = 0;
  for (size_t i = 0; i < moved.size(); ++i)
    g += (loop.theta[i] - moved[i]) / n;
  for (size_t i = 0; i < moved.size(); ++i) {
    loop.memory[i] = loop.mu * loop.memory[i] + g;
    loop.theta[i] -= loop.eta * (g + loop.mu * loop.memory[i]);
  }
}

void average_on_ring(Loop& loop, const Numbers& moved) {
  const size_t n = moved.size();
  for (size_t i = 0; i < n; ++i)
    loop.theta[i] = (moved[i] + moved[(i + 1) % n] + moved[(i + n - 1) % n]) / 3;
}

void noloco(Loop& loop, const Numbers& moved) {
  const Numbers mean = paired(moved, loop.round);
  for (size_t i = 0; i < moved.size(); ++i) {
    loop.memory[i] = loop.mu * loop.memory[i] + loop.eta * (mean[i] - loop.theta[i]);
    loop.theta[i] += loop.memory[i];
  }
}

void gasloc(Loop& loop, const Numbers& moved) {
  if (loop.round == 0) loop.memory = loop.theta;
  Numbers y(moved.size());
  for (size_t i = 0; i < moved.size(); ++i)
    y[i] = loop.theta[i] - loop.eta * (loop.theta[i] - moved[i]);
  const Numbers mean = paired(y, loop.round);
  for (size_t i = 0; i < moved.size(); ++i)
    loop.theta[i] = mean[i] + loop.mu * (y[i] - loop.memory[i]);
  loop.memory = y;
}

struct Setting {
  const char* what;
  const char* words;
  int ranks;
  double eta, mu;
  void (*step)(Loop&, const Numbers& moved);
};

constexpr Setting kSettings[] = {
    {"DiLoCo by all_reduce", "method=all_reduce", 16, 0.7, 0.9, take_together},
    {"a rank alone", "method=a2cid2 topology=chain", 1, 0.7, 0.9, take_together},
    {"local SGD by d_psgd", "method=d_psgd", 16, 1, 0, average_on_ring},
    {"NoLoCo", "method=noloco", 16, 0.7, 0.5, noloco},
    {"GASLoC", "method=gasloc", 16, 0.7, 0.6, gasloc},
};

Numbers oracle(const Setting& setting, Objective& objective) {
  Loop loop{setting.eta, setting.mu, Numbers(static_cast<size_t>(setting.ranks)),
            Numbers(static_cast<size_t>(setting.ranks))};
  const auto number = [](double& x) { return Vec(&x, 1, DType::f64); };
  for (int rank = 0; rank < setting.ranks; ++rank)
    objective.initial_point(rank, number(loop.theta[static_cast<size_t>(rank)]));
  for (; loop.round < kOuterSteps; ++loop.round) {
    Numbers moved = loop.theta;
    for (int rank = 0; rank < setting.ranks; ++rank) {
      double& x = moved[static_cast<size_t>(rank)];
      for (uint64_t step = 0; step < kInner; ++step) {
        double g = 0;
        objective.gradient(0, rank, loop.round * kInner + step, number(x), number(g));
        x -= kRate * g;
      }
    }
    setting.step(loop, moved);
  }
  return loop.theta;
}

Result<std::shared_ptr<Objective>> made_of(const ObjectiveSpec& spec) {
  auto made = make_objective(spec);
  if (!made) return made.error();
  return std::shared_ptr<Objective>(std::move(*made));
}

Result<std::shared_ptr<Objective>> problem_of(const Setting& setting) {
  ObjectiveSpec spec;
  spec.objective = "scalar";
  spec.ranks = setting.ranks;
  return made_of(spec);
}

// --- a part of the numbers after each step

constexpr int kParties = 16;
constexpr double kPart = 0.05, kSpreadTolerance = 0.01;

Result<std::shared_ptr<Objective>> quadratic() {
  ObjectiveSpec spec;
  spec.objective = "quadratic";
  spec.ranks = kParties;
  spec.seed = kSeed;
  spec.dim = 60;
  spec.zeta2 = 1;
  spec.noise = 0.1;
  return made_of(spec);
}

/// The parameters of each rank at the end.
std::vector<Numbers> sparta(Objective& objective) {
  const size_t dim = objective.layout().size();
  const auto view = [](Numbers& x) { return Vec(x.data(), x.size(), DType::f64); };
  const Compressor drawn =
      *Compressor::make(fmt::format("random-k:{}", kPart), objective.layout(), kSeed);
  Numbers places(dim), part(drawn.bytes() / sizeof(double)), g(dim);
  std::iota(places.begin(), places.end(), 0);
  std::vector<Numbers> x(kParties, Numbers(dim));
  for (int rank = 0; rank < kParties; ++rank)
    objective.initial_point(rank, view(x[static_cast<size_t>(rank)]));
  for (uint64_t round = 0; round < kOuterSteps; ++round) {
    for (int rank = 0; rank < kParties; ++rank) {
      Numbers& own = x[static_cast<size_t>(rank)];
      objective.gradient(0, rank, round, view(own), view(g));
      for (size_t k = 0; k < dim; ++k)
        own[k] -= kRate * g[k];
    }
    drawn.encode({}, view(places), 0, round, reinterpret_cast<std::byte*>(part.data()));
    for (const double place : part) {
      const auto k = static_cast<size_t>(place);
      double mean = 0;
      for (const Numbers& own : x)
        mean += own[k] / kParties;
      for (Numbers& own : x)
        own[k] = mean;
    }
  }
  return x;
}

Result<Claims> reproduce_sparta(const Effort& effort) {
  const auto objective = quadratic();
  if (!objective) return objective.error();
  const std::string common =
      fmt::format("ranks={} topology=complete method=d_psgd compress=random:{} ", kParties, kPart);
  Run steps, alone;
  steps.words = common + fmt::format("objective=quadratic dim=60 zeta2=1 noise=0.1 lr={}", kRate);
  alone.words = common + "objective=matrix rows=100 columns=100";
  steps.rounds = alone.rounds = effort.rounds(kOuterSteps);
  const auto summaries = perform_all({steps, alone}, effort);
  if (!summaries) return summaries.error();
  const std::vector<Numbers> expected = sparta(**objective);
  double farthest = 0;
  for (int rank = 0; rank < kParties; ++rank) {
    const Numbers x = parameters_of(summaries->front(), rank);
    for (size_t k = 0; k < x.size(); ++k)
      farthest = std::max(farthest, std::abs(x[k] - expected[static_cast<size_t>(rank)][k]));
  }
  const double left = summaries->back().norm_end / summaries->back().norm_start;
  const double of_a_step = std::pow(left * left, 1 / static_cast<double>(alone.rounds));
  return Claims{{"SPARTA by d_psgd: the farthest rank from the loop", 0, farthest, kTolerance,
                 Accept::absolute},
                {"SPARTA: squared distance from the mean, over that a step before", 1 - kPart,
                 of_a_step, kSpreadTolerance, Accept::relative}};
}

}  // namespace

Result<Claims> reproduce_local_steps(const Effort& effort) {
  std::vector<Run> runs;
  std::vector<Numbers> expected;
  for (const Setting& setting : kSettings) {
    const auto objective = problem_of(setting);
    if (!objective) return objective.error();
    expected.push_back(oracle(setting, **objective));
    Run run;
    run.words = fmt::format(
        "objective=scalar ranks={} lr={} inner-steps={} outer-lr={} outer-momentum={} {}",
        setting.ranks, kRate, kInner, setting.eta, setting.mu, setting.words);
    run.rounds = effort.rounds(kInner * kOuterSteps);
    run.seed = kSeed;
    runs.push_back(std::move(run));
  }
  const auto summaries = perform_all(runs, effort);
  if (!summaries) return summaries.error();
  Claims claims;
  for (size_t k = 0; k < runs.size(); ++k) {
    double farthest = 0;
    for (size_t rank = 0; rank < expected[k].size(); ++rank) {
      const double x = parameters_of((*summaries)[k], static_cast<int>(rank)).front();
      farthest = std::max(farthest, std::abs(x - expected[k][rank]));
    }
    claims.push_back({fmt::format("{}: the farthest rank from the loop", kSettings[k].what), 0,
                      farthest, kTolerance, Accept::absolute});
  }
  const auto of_parts = reproduce_sparta(effort);
  if (!of_parts) return of_parts.error();
  return joined({claims, *of_parts});
}

}  // namespace grapevine
