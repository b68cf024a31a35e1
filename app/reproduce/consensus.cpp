// reproduce consensus: rounds and bits per rank until the matrices of an 8-ring agree.
//
// One 100 x 100 matrix per rank, Gaussian or with singular values that fall as k^-p. The error is
// mean_i |X_i - mean|^2 over its start; gamma is the best one of plain gossip. The experiment is
// that of Vogels, Karimireddy, Jaggi, NeurIPS 2020 (arXiv 2008.01425); the figures are those of its
// equations. A number counts as 32 bits.
#include <fmt/core.h>

#include <cmath>

#include "app/reproduce/runs.hpp"
#include "app/system/words.hpp"

namespace grapevine {
namespace {

constexpr double kConsensusTolerance = 0.02;
constexpr double kBitsPerByte = 32.0 / sizeof(double);  // the runs use double
constexpr double kMega = 1e6;

struct Target {
  double ratio, rounds, megabits;  // rounds 0: unknown
};

struct ConsensusRow {
  const char* what;
  const char* words;
  uint64_t rounds;  // enough for all targets
  std::vector<Target> targets;
};

const std::vector<ConsensusRow>& consensus_rows() {
  static const std::vector<ConsensusRow> kRows = {
      {"uncompressed", "method=d_psgd", 30, {{1e-3, 11, 7.04}, {1e-6, 22, 14.08}}},
      {"PowerGossip rank 1, warm",
       "method=powergossip",
       2400,
       {{1e-3, 946, 6.05}, {1e-6, 2228, 14.25}}},
      {"PowerGossip rank 1, cold",
       "method=powergossip compress=powergossip:start=cold",
       2900,
       {{1e-3, 1257, 8.04}, {1e-6, 2698, 17.26}}},
      {"PowerGossip rank 2, warm",
       "method=powergossip compress=powergossip:rank=2",
       1200,
       {{1e-3, 476, 6.08}, {1e-6, 1117, 14.29}}},
      {"PowerGossip rank 4, warm",
       "method=powergossip compress=powergossip:rank=4",
       600,
       {{1e-3, 240, 6.12}, {1e-6, 559, 14.29}}},
      {"singular values 1/k, warm",
       "method=powergossip spectrum-decay=1",
       2100,
       {{1e-3, 0, 4.21}, {1e-6, 0, 12.1}}},
      {"singular values 1/k, cold",
       "method=powergossip spectrum-decay=1 compress=powergossip:start=cold",
       2900,
       {{1e-3, 0, 8.0}, {1e-6, 0, 17.2}}},
      {"singular values 1/k^2, warm",
       "method=powergossip spectrum-decay=2",
       1400,
       {{1e-3, 0, 1.51}, {1e-6, 0, 7.75}}},
      {"singular values 1/k^2, cold",
       "method=powergossip spectrum-decay=2 compress=powergossip:start=cold",
       2900,
       {{1e-3, 0, 8.0}, {1e-6, 0, 17.3}}},
  };
  return kRows;
}

Result<Claims> measure(const ConsensusRow& row, const Effort& effort) {
  Run run;
  run.words = "objective=matrix topology=ring ranks=8 gamma=0 " + std::string(row.words);
  run.seed = effort.seed;
  run.rounds = effort.rounds(row.rounds);
  run.sampled = true;
  const auto summary = perform(run);
  if (!summary) return summary.error();
  const auto all = static_cast<double>(run.rounds);
  // |pi x|^2 is the sum over ranks
  const double start = summary->norm_start * summary->norm_start / 8;
  Claims claims;
  for (const Target& target : row.targets) {
    double rounds = all + 1, bytes = std::nan("");
    for (size_t k = 0; k < summary->curve.size(); ++k) {
      if (summary->curve[k].consensus_distance > target.ratio * start) continue;
      rounds = static_cast<double>(k + 1);
      bytes = payload_after(*summary, static_cast<double>(summary->curve[k].bytes), rounds, all);
      break;
    }
    const std::string what = fmt::format("{} to {}", row.what, as_short(target.ratio));
    if (target.rounds > 0)
      claims.push_back({what + ", rounds", target.rounds, rounds, kConsensusTolerance});
    claims.push_back(
        {what + ", Mbit", target.megabits, bytes * kBitsPerByte / kMega, kConsensusTolerance});
  }
  return claims;
}

}  // namespace

Result<Claims> reproduce_consensus(const Effort& effort) {
  std::vector<Claims> parts(consensus_rows().size());
  const Status done = for_all(parts.size(), effort, [&](size_t k) -> Status {
    auto measured = measure(consensus_rows()[k], effort);
    if (!measured) return measured.error();
    parts[k] = std::move(*measured);
    return Done{};
  });
  if (!done) return done.error();
  return joined(parts);
}

}  // namespace grapevine
