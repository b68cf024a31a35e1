// reproduce message-loss: the effect of lost messages on each method.
//
// 16 ranks, random quadratics of 10 dimensions, zeta^2 = 1, the optimum 10 away, learning rate 0.1
// (gradient tracking 0.05). The figure is f(mean) - minimum, its mean over the last 500 of 4,000
// rounds. A link loses a message with probability p. The published comparison is on CIFAR-10
// (Vogels et al., NeurIPS 2021, arXiv 2110.04175, appendix). The figures here are of the published
// equations on one draw of these quadratics, so each is compared with the geometric mean of several
// draws. If D2 and gradient tracking lose messages, a random part of the first rounds stays in
// their corrections, and draws differ by a factor of 30: then the nearest of several draws is used.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "app/reproduce/runs.hpp"
#include "app/system/words.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kRounds = 4000, kAveraged = 500;
constexpr uint64_t kSeeds = 5, kSeedsOfScattered = 8;
constexpr double kExact = 1e-20;  // smaller values are only rounding
constexpr double kFactor = 3;

struct Figure {
  double probability, expected;
  bool bound = false;  // at most `expected`, for every draw; also set for exact results
};

// `missing` selects the replacement of a lost message in gossip; for relayed sums `normalisation`
// does (a lost one counts as nothing).
struct Row {
  const char* what;
  const char* words;
  std::vector<Figure> figures;
  bool scatters = false;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"RelaySGD chain, x0",
       "method=relaysgd topology=chain missing=renormalise normalisation=x0",
       {{0, kExact}, {.01, 12.4}, {.1, 51.2}}},
      {"RelaySGD chain, counts",
       "method=relaysgd topology=chain missing=renormalise normalisation=counts",
       {{0, kExact}, {.01, 9.4e-5}, {.1, 2.2e-3}}},
      {"RelaySGD chain, own",
       "method=relaysgd topology=chain missing=renormalise normalisation=own",
       {{0, kExact}, {.01, 7.5e-5}, {.1, 1.7e-3}}},
      {"RelaySGD chain, previous",
       "method=relaysgd topology=chain missing=renormalise normalisation=previous",
       {{0, kExact}, {.01, 3.1e-5}, {.1, 1.2e-3}}},
      {"RelaySGD tree, counts",
       "method=relaysgd topology=relay-tree missing=renormalise normalisation=counts",
       {{0, kExact}, {.01, 5.6e-5}, {.1, 8.8e-4}}},
      {"RelaySGD tree, own",
       "method=relaysgd topology=relay-tree missing=renormalise normalisation=own",
       {{0, kExact}, {.01, 4.9e-5}, {.1, 7.6e-4}}},
      {"RelaySGD tree, previous",
       "method=relaysgd topology=relay-tree missing=renormalise normalisation=previous",
       {{0, kExact}, {.01, 2.4e-5}, {.1, 1.4e-3}}},
      {"RelaySGD chain, reuse",
       "method=relaysgd topology=chain missing=reuse",
       {{0, kExact}, {.01, kExact}, {.1, kExact}, {.5, 3e-15}}},
      {"RelaySGD tree, reuse",
       "method=relaysgd topology=relay-tree missing=reuse",
       {{0, kExact}, {.01, kExact}, {.1, kExact}, {.5, kExact}}},
      {"RelaySGD async chain",
       "method=relaysgd_async topology=chain",
       {{.1, kExact}, {.5, 1e-14, true}}},
      {"RelaySGD async tree",
       "method=relaysgd_async topology=relay-tree",
       {{.1, kExact}, {.5, kExact}}},
      {"D-PSGD ring, shrink",
       "method=d_psgd missing=shrink",
       {{0, 1.41e-3}, {.01, .559}, {.1, 17.2}}},
      {"D-PSGD ring, renormalise",
       "method=d_psgd missing=renormalise",
       {{0, 1.41e-3}, {.01, 1.60e-3}, {.1, 2.07e-3}}},
      {"D-PSGD ring, own",
       "method=d_psgd missing=own",
       {{0, 1.41e-3}, {.01, 1.53e-3}, {.1, 1.94e-3}}},
      {"D2 ring, shrink",
       "method=d2 missing=shrink weights=uniform:0.32333333333333333",
       {{0, kExact}, {.01, 61.4}, {.1, 61.4}}},
      {"D2 ring, renormalise",
       "method=d2 missing=renormalise weights=uniform:0.32333333333333333",
       {{0, kExact}, {.01, 2.5e-3}, {.1, 7.1e-2}},
       true},
      {"D2 ring, own",
       "method=d2 missing=own weights=uniform:0.32333333333333333",
       {{0, kExact}, {.01, 1.1e-3}, {.1, 4.3e-2}},
       true},
      {"D2 ring, reuse",
       "method=d2 missing=reuse weights=uniform:0.32333333333333333",
       {{0, kExact}, {.01, .193}, {.1, 15.1}},
       true},
      {"gradient tracking ring, reuse",
       "method=gradient_tracking missing=reuse weights=uniform:0.32333333333333333 lr=0.05",
       {{0, kExact}, {.01, 1.5e-3}, {.1, .327}},
       true},
  };
  return kRows;
}

Run run_of(const Row& row, double probability, uint64_t seed, uint64_t rounds) {
  Run run;
  run.words = "objective=quadratic ranks=16 dim=10 zeta2=1 mu=0.5 r0=10 lr=0.1 relay-lr=false ";
  run.words += row.words;
  run.seed = seed;
  run.rounds = rounds;
  run.bulk_loss = probability;
  return run;
}

/// The mean over the last rounds, without the very last.
double last_of(RoundMeans& run, uint64_t rounds) {
  double sum = 0;
  const uint64_t count = std::min(rounds - 1, kAveraged);
  for (uint64_t k = 1; k <= count; ++k)
    sum += run.suboptimality(rounds - k);
  return std::max(sum / static_cast<double>(count), std::numeric_limits<double>::min());
}

enum class Of { all, worst, nearest };  // the draw that is compared with the figure

struct Cell {
  Claim claim;
  Of of = Of::all;
  size_t first = 0, count = 0;  // its runs
};

Cell cell_of(const Row& row, const Figure& figure, const Effort& effort) {
  const bool bound = figure.bound || figure.expected <= kExact;
  Cell cell;
  cell.claim.what = fmt::format("{}, p = {}", row.what, as_short(figure.probability));
  cell.claim.expected = figure.expected;
  if (bound) {
    cell.claim.accept = Accept::at_most;
    cell.of = Of::worst;
  } else {
    cell.claim.accept = Accept::factor;
    cell.claim.tolerance = kFactor;
    cell.of = row.scatters ? Of::nearest : Of::all;
  }
  const bool many = cell.of == Of::nearest;
  cell.count = effort.seeds_or(many ? kSeedsOfScattered : kSeeds);
  if (many) cell.claim.what += fmt::format(" (nearest of {})", cell.count);
  return cell;
}

double figure_of(const Cell& cell, const std::vector<double>& ends) {
  const double* first = ends.data() + cell.first;
  const double* end = first + cell.count;
  const auto away = [&](double x) { return std::abs(std::log(x / cell.claim.expected)); };
  switch (cell.of) {
    case Of::all: return geometric_mean({first, end});
    case Of::worst: return *std::max_element(first, end);
    case Of::nearest: break;
  }
  return *std::min_element(first, end, [&](double a, double b) { return away(a) < away(b); });
}

}  // namespace

Result<Claims> reproduce_losses(const Effort& effort) {
  const uint64_t rounds = effort.rounds(kRounds);
  std::vector<Run> runs;
  std::vector<Cell> cells;
  for (const Row& row : rows()) {
    for (const Figure& figure : row.figures) {
      Cell cell = cell_of(row, figure, effort);
      cell.first = runs.size();
      for (uint64_t k = 0; k < cell.count; ++k)
        runs.push_back(run_of(row, figure.probability, effort.seed + k, rounds));
      cells.push_back(std::move(cell));
    }
  }
  std::vector<double> ends(runs.size());
  const Status done = for_all(runs.size(), effort, [&](size_t k) -> Status {
    std::shared_ptr<RoundMeans> by_round;
    const auto summary = perform(runs[k], &by_round);
    if (!summary) return summary.error();
    ends[k] = last_of(*by_round, rounds);
    return Done{};
  });
  if (!done) return done.error();
  Claims claims;
  for (Cell& cell : cells) {
    cell.claim.measured = figure_of(cell, ends);
    claims.push_back(std::move(cell.claim));
  }
  return claims;
}

}  // namespace grapevine
