// reproduce message-loss: what links that lose messages do to each method.
//
// 16 ranks, random quadratics of 10 dimensions, zeta^2 = 1, the optimum 10 away, learning rate 0.1
// (gradient tracking 0.05); f(mean) - minimum, its mean over the last 500 of 4,000 rounds. A link
// loses a message with probability p. The published comparison is on CIFAR-10 (Vogels et al.,
// NeurIPS 2021, arXiv 2110.04175, appendix); the figures here are of the published equations on
// one draw of these quadratics, so each is held against the geometric mean of several draws.
#include <cmath>

#include "app/reproduce_runs.hpp"
#include "app/words.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kRounds = 4000, kAveraged = 500;
constexpr uint64_t kSeeds = 5;
constexpr double kExact = 1e-20;  // below it there is nothing but rounding
constexpr double kFactor = 3;

struct Figure {
  double probability, expected;
};

// What a lost message is replaced by is said by `missing` in gossip, and by `normalisation` where
// sums are relayed (a lost one counts as nothing).
struct Row {
  const char* what;
  const char* words;
  std::vector<Figure> figures;
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
      {"RelaySGD async chain", "method=relaysgd_async topology=chain", {{.1, kExact}, {.5, 1e-14}}},
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
       {{0, kExact}, {.01, 2.5e-3}, {.1, 7.1e-2}}},
      {"D2 ring, own",
       "method=d2 missing=own weights=uniform:0.32333333333333333",
       {{0, kExact}, {.01, 1.1e-3}, {.1, 4.3e-2}}},
      {"D2 ring, reuse",
       "method=d2 missing=reuse weights=uniform:0.32333333333333333",
       {{0, kExact}, {.01, .193}, {.1, 15.1}}},
      {"gradient tracking ring, reuse",
       "method=gradient_tracking missing=reuse weights=uniform:0.32333333333333333 lr=0.05",
       {{0, kExact}, {.01, 1.5e-3}, {.1, .327}}},
  };
  return kRows;
}

/// Whether the figure says "no more than", and not "about".
bool is_bound(const Figure& figure) { return figure.expected <= 1e-14; }

Run run_of(const Row& row, double probability, uint64_t seed, uint64_t rounds) {
  Run run;
  run.words = "objective=quadratic ranks=16 dim=10 zeta2=1 mu=0.5 r0=10 lr=0.1 relay-lr=false ";
  run.words += row.words;
  run.seed = seed;
  run.rounds = rounds;
  run.bulk_loss = probability;
  run.adjust = [](Settings& s) { s.sample_s = 1; };  // rounds that lose something take longer
  return run;
}

/// The mean over the last rounds.
double last_of(const Summary& summary, uint64_t rounds) {
  const uint64_t ranks = summary.ranks.size();
  const uint64_t first = (rounds - std::min(rounds, kAveraged)) * ranks;
  double sum = 0;
  int count = 0;
  for (const CurvePoint& point : summary.curve) {
    if (point.gradients < first || !std::isfinite(point.suboptimality)) continue;
    sum += point.suboptimality;
    ++count;
  }
  return std::max(sum / count, std::numeric_limits<double>::min());
}

}  // namespace

Result<Claims> reproduce_losses(const Effort& effort) {
  const uint64_t seeds = effort.seeds_or(kSeeds), rounds = effort.rounds(kRounds);
  std::vector<Run> runs;
  Claims claims;
  for (const Row& row : rows()) {
    for (const Figure& figure : row.figures) {
      const std::string what = std::string(row.what) + ", p = " + as_short(figure.probability);
      if (is_bound(figure)) {
        claims.push_back({what, figure.expected, 0, 0, Accept::at_most});
      } else {
        claims.push_back({what, figure.expected, 0, kFactor, Accept::factor});
      }
      for (uint64_t k = 0; k < seeds; ++k)
        runs.push_back(run_of(row, figure.probability, effort.seed + k, rounds));
    }
  }
  std::vector<double> ends(runs.size());
  const Status done = for_all(runs.size(), effort, [&](size_t k) -> Status {
    const auto summary = perform(runs[k]);
    if (!summary) return summary.error();
    ends[k] = last_of(*summary, rounds);
    return Done{};
  });
  if (!done) return done.error();
  for (size_t k = 0; k < claims.size(); ++k) {
    const auto first = ends.begin() + static_cast<ptrdiff_t>(k * seeds);
    claims[k].measured = geometric_mean({first, first + static_cast<ptrdiff_t>(seeds)});
  }
  return claims;
}

}  // namespace grapevine
