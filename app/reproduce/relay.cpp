// reproduce delivery, relay-counts, learning-rate, mean-estimation: figures that follow from hops.
//
// A summand of rank j reaches rank i after max(hops(i, j) - 1, 0) rounds (topologies/trees.hpp).
// Figures: Vogels et al., NeurIPS 2021 (arXiv 2110.04175), and the equations of its algorithm 1.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "app/reproduce/runs.hpp"

namespace grapevine {
namespace {

constexpr int kTreeRanks = 16;

Run on_tree(const std::string& tree, int ranks, const std::string& method, uint64_t rounds) {
  Run run;
  run.words =
      fmt::format("objective=scalar relay-lr=false topology={} ranks={} {}", tree, ranks, method);
  run.rounds = rounds;
  return run;
}

// --- delivery

constexpr int kSpeaker = 5;
constexpr uint64_t kDeliveryRounds = 24;

/// One rank contributes `ranks` in round 0 and 0 later. Records the x of every rank in each round.
struct Delivery {
  std::vector<double> after[kTreeRanks];  // [rank][k]: after k rounds

  Result<Done> measure(const std::string& tree, uint64_t rounds) {
    Run run = on_tree(tree, kTreeRanks, "method=relaysum_grad lr=1", rounds);
    auto gradient = [this](int rank, uint64_t index, ConstVec x, Vec g) {
      after[rank].push_back(*x.as<double>());
      if (rank == kSpeaker && index == 0) *g.as<double>() = -kTreeRanks;
    };
    run.objective = std::make_shared<Probe>(ParameterLayout::flat(1, DType::f64), gradient);
    const auto summary = perform(run);
    if (!summary) return summary.error();
    for (int rank = 0; rank < kTreeRanks; ++rank)
      after[rank].push_back(parameters_of(*summary, rank).front());
    return Done{};
  }
};

// --- relayed counts

Result<std::vector<double>> counts_after(const std::string& tree, uint64_t rounds) {
  const auto summary = perform(on_tree(tree, kTreeRanks, "method=relaysgd", rounds));
  if (!summary) return summary.error();
  std::vector<double> counts;
  for (const RankSummary& rank : summary->ranks)
    counts.push_back(rank.counts.relay_count);
  return counts;
}

Claim exactly(const std::string& what, double expected, double measured) {
  return {what, expected, measured, 0, Accept::absolute};
}

// --- learning rate

/// The factor 1 / f, where f is the final effect of a step of 1 of all ranks in round 0: 1 + the
/// mean delay, if x0 replaces missing contributions.
Result<double> factor_of(const std::string& tree, int ranks, const std::string& words,
                         const Effort& effort) {
  constexpr uint64_t kWarmUp = 3000;
  Run run = on_tree(tree, ranks, "method=relaysgd lr=1 " + words, effort.rounds(kWarmUp));
  auto gradient = [](int, uint64_t index, ConstVec, Vec g) {
    *g.as<double>() = index == 0 ? -1 : 0;
  };
  run.objective = std::make_shared<Probe>(ParameterLayout::flat(1, DType::f64), gradient);
  const auto summary = perform(run);
  if (!summary) return summary.error();
  return 1 / parameters_of(*summary, 0).front();
}

/// 1 + the mean delay that a run reports.
Result<double> factor_told(const std::string& tree, int ranks) {
  const auto summary = perform(on_tree(tree, ranks, "method=relaysgd", 1));
  if (!summary) return summary.error();
  return 1 + summary->epochs.front().relay_delay;
}

struct Factors {
  const char* tree;
  double of[4];  // by ranks: 4, 8, 16, 32
};

constexpr int kTreeSizes[] = {4, 8, 16, 32};
constexpr Factors kFactors[] = {{"chain", {1.5, 2.75, 5.375, 10.6875}},
                                {"relay-tree", {1.375, 2.15625, 3.320313, 4.783203}},
                                {"star", {1.375, 1.65625, 1.820313, 1.908203}}};

}  // namespace

Result<Claims> reproduce_delivery(const Effort& effort) {
  const struct {
    const char* tree;
    std::vector<double> arrivals;
  } rows[] = {{"chain", {4, 3, 2, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
              {"relay-tree", {2, 1, 0, 2, 1, 0, 3, 3, 2, 2, 0, 0, 4, 4, 4, 4}}};
  Claims claims;
  for (const auto& row : rows) {
    Delivery run;
    if (Status ok = run.measure(row.tree, effort.rounds(kDeliveryRounds)); !ok) return ok.error();
    double before = 0, off = 0;
    for (int rank = 0; rank < kTreeRanks; ++rank) {
      const std::vector<double>& read = run.after[rank];
      const auto found = std::find_if(read.begin(), read.end(), [](double x) { return x != 0; });
      const auto round = static_cast<double>(found - read.begin()) - 1;
      claims.push_back(
          exactly(fmt::format("{} of 16, from rank 5 to rank {}: round", row.tree, rank),
                  row.arrivals[static_cast<size_t>(rank)], round));
      before = std::max(before, std::abs(*std::min_element(read.begin(), found)));
      for (auto x = found; x != read.end(); ++x)
        off = std::max(off, std::abs(*x - 1));
      if (found == read.end()) off = 1;
    }
    const std::string of = std::string(row.tree) + " of 16, ";
    claims.push_back(exactly(of + "largest value before it arrives", 0, before));
    claims.push_back(exactly(of + "largest distance from 1 after", 0, off));
  }
  return claims;
}

Result<Claims> reproduce_relay_counts(const Effort& effort) {
  const struct {
    const char* tree;
    double full;  // the round, from 0, after which every rank has the sums of all
  } rows[] = {{"chain", 14}, {"relay-tree", 5}, {"star", 1}};
  Claims claims;
  for (const auto& row : rows) {
    double first = -1;
    for (uint64_t round = 0; round < effort.rounds(kTreeRanks) && first < 0; ++round) {
      const auto counts = counts_after(row.tree, round + 1);
      if (!counts) return counts.error();
      if (*std::min_element(counts->begin(), counts->end()) == kTreeRanks)
        first = static_cast<double>(round);
    }
    claims.push_back(
        exactly(std::string(row.tree) + " of 16, round of full counts", row.full, first));
  }
  for (const auto& [rank, published] :
       {std::pair{0, std::vector<double>{2, 4, 8, 16}}, {15, std::vector<double>{2, 4, 6, 10}}}) {
    for (uint64_t round = 0; round < published.size(); ++round) {
      const auto counts = counts_after("relay-tree", effort.rounds(round + 1));
      if (!counts) return counts.error();
      claims.push_back(
          exactly(fmt::format("relay-tree of 16, rank {}, count after round {}", rank, round),
                  published[round], (*counts)[static_cast<size_t>(rank)]));
    }
  }
  return claims;
}

Result<Claims> reproduce_learning_rate(const Effort& effort) {
  constexpr double kTolerance = 1e-6;
  Claims claims;
  const auto add = [&](const std::string& what, double expected,
                       const Result<double>& measured) -> Status {
    if (!measured) return measured.error();
    claims.push_back({what, expected, *measured, kTolerance, Accept::absolute});
    return Done{};
  };
  for (const Factors& row : kFactors) {
    for (size_t k = 0; k < std::size(kTreeSizes); ++k) {
      const int n = kTreeSizes[k];
      const std::string of = fmt::format("{} of {}", row.tree, n);
      if (Status ok = add(of + ", factor told", row.of[k], factor_told(row.tree, n)); !ok)
        return ok.error();
      const auto measured = factor_of(row.tree, n, "normalisation=x0", effort);
      if (Status ok = add(of + ", of an impulse, x0", row.of[k], measured); !ok) return ok.error();
    }
  }
  for (const auto& [tree, previous] :
       {std::pair{"chain", 2.534586}, std::pair{"relay-tree", 2.373829}}) {
    const std::string of = std::string(tree) + " of 16, of an impulse, ";
    for (const auto& [name, expected] :
         {std::pair{"counts", 1.0}, {"own", 1.0}, {"previous", previous}}) {
      const auto measured =
          factor_of(tree, kTreeRanks, "normalisation=" + std::string(name), effort);
      if (Status ok = add(of + name, expected, measured); !ok) return ok.error();
    }
  }
  return claims;
}

Result<Claims> reproduce_mean_estimation(const Effort& effort) {
  constexpr uint64_t kRounds = 400;
  constexpr double kTolerance = 5e-6;  // the last digit of the figures
  const struct {
    const char* tree;
    double of[3];  // by ranks: 16, 32, 64
  } rows[] = {{"chain", {1.01107, 1.02486, 1.05375}},
              {"relay-tree", {1.00584, 1.00955, 1.01383}},
              {"star", {1.00206, 1.00228, 1.00239}}};
  Claims claims;
  for (const auto& row : rows) {
    for (size_t k = 0; k < std::size(row.of); ++k) {
      const int n = 16 << k;
      // Each rank has its own coordinate, in which its first sample is 1 and all others 0. So an
      // estimate shows how many samples it is the mean of: its mean square error is the inverse.
      auto gradient = [](int rank, uint64_t index, ConstVec x, Vec g) {
        for (size_t i = 0; i < x.size; ++i)
          g.as<double>()[i] = x.as<double>()[i];
        if (index == 0) g.as<double>()[rank] -= 1;
      };
      Run run = on_tree(row.tree, n, "method=mean_estimation", effort.rounds(kRounds));
      run.objective = std::make_shared<Probe>(
          ParameterLayout::flat(static_cast<size_t>(n), DType::f64), gradient);
      const auto summary = perform(run);
      if (!summary) return summary.error();
      double error = 0;
      for (int rank = 0; rank < n; ++rank)
        error += parameters_of(*summary, rank)[static_cast<size_t>(rank)] / n;
      claims.push_back({fmt::format("{} of {}, mean square error times samples", row.tree, n),
                        row.of[k], error * n * static_cast<double>(kRounds), kTolerance,
                        Accept::absolute});
    }
  }
  return claims;
}

}  // namespace grapevine
