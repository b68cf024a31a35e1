// reproduce heterogeneity: a small network on Fashion-MNIST, with different labels on each rank.
//
// 16 ranks, 2,500 rounds of batches of 16, momentum 0.9 on each rank, a cosine schedule. The labels
// of the ranks are drawn from a Dirichlet distribution: at 1 they differ, at 0.01 most ranks have
// only two or three. The order of the methods is that of Vogels et al. (NeurIPS 2021, arXiv
// 2110.04175, table 2: CIFAR-10, VGG-11): RelaySGD is as good as all-reduce, gossip is worse. The
// expected figure is the result of all-reduce here: the averaged model on the test set.
#include <fmt/core.h>

#include <algorithm>

#include "app/reproduce/runs.hpp"
#include "app/system/words.hpp"

namespace grapevine {
namespace {

constexpr const char* kAlphas[] = {"1", "0.1", "0.01"};
constexpr uint64_t kHeterogeneityRounds = 2500;
constexpr double kNear = 0.02;    // to all-reduce
constexpr double kBehind = 0.02;  // at 0.01

struct Method {
  const char* what;
  const char* words;
};

constexpr Method kCompared[] = {
    {"all-reduce", "method=all_reduce lr=0.1"},
    {"RelaySGD, double binary trees",
     "method=relaysgd topology=double-binary-trees relay-lr=false lr=0.2"},
    {"D-PSGD, ring", "method=d_psgd lr=0.05"},
};
constexpr size_t kAllReduce = 0, kRelay = 1, kGossip = 2;

Result<double> accuracy_of(const Method& method, const std::string& alpha, uint64_t seed,
                           const Effort& effort) {
  Run run;
  run.words = fmt::format(
      "objective=network model=cnn-small dataset=fashion-mnist ranks=16 momentum=0.9 "
      "partition=dirichlet:{} {}",
      alpha, method.words);
  run.seed = seed;
  run.rounds = effort.rounds(kHeterogeneityRounds);
  run.tested = true;
  run.adjust = [&](Settings& s) { s.objective.data_dir = effort.data_dir; };
  const auto summary = perform(run);
  if (!summary) return summary.error();
  return summary->averaged.accuracy;
}

}  // namespace

Result<Claims> reproduce_heterogeneity(const Effort& effort) {
  constexpr size_t kCells = std::size(kAlphas) * std::size(kCompared);
  const uint64_t seeds = effort.seeds_or(1);
  std::vector<double> accuracy(kCells * seeds);
  const Status done = for_all(accuracy.size(), effort, [&](size_t k) -> Status {
    const size_t cell = k / seeds;
    const auto measured =
        accuracy_of(kCompared[cell % std::size(kCompared)], kAlphas[cell / std::size(kCompared)],
                    effort.seed + k % seeds, effort);
    if (!measured) return measured.error();
    accuracy[k] = *measured;
    return Done{};
  });
  if (!done) return done.error();
  Claims claims;
  for (size_t alpha = 0; alpha < std::size(kAlphas); ++alpha) {
    double mean[std::size(kCompared)] = {};
    for (size_t method = 0; method < std::size(kCompared); ++method)
      for (uint64_t k = 0; k < seeds; ++k)
        mean[method] += accuracy[(alpha * std::size(kCompared) + method) * seeds + k] /
                        static_cast<double>(seeds);
    const auto named = [&](size_t method) {
      return fmt::format("Dirichlet {}, {}", kAlphas[alpha], kCompared[method].what);
    };
    claims.push_back({named(kRelay) + ": accuracy, at most 2 points below all-reduce's",
                      mean[kAllReduce] - kNear, mean[kRelay], 0, Accept::at_least});
    if (alpha + 1 < std::size(kAlphas)) continue;
    claims.push_back({named(kGossip) + ": accuracy, at least 2 points below RelaySGD's",
                      mean[kRelay] - kBehind, mean[kGossip], 0, Accept::at_most});
  }
  return claims;
}

}  // namespace grapevine
