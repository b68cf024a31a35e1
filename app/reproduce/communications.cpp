// reproduce a2cid2-communications: exchanges until |pi x| has shrunk to a thousandth, by graph and
// size, and how this number grows.
//
// Poisson clocks on the edges, no latency, ranks that start at Gaussian points, as in the theory of
// Nabli, Belilovsky, Oyallon (NeurIPS 2023, arXiv 2306.08289). The expected figures are means of 6
// to 20 runs of its equations without messages; the tolerance includes their error.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "app/reproduce/runs.hpp"

namespace grapevine {
namespace {

constexpr int kGraphSizes[] = {8, 16, 32, 64};
constexpr uint64_t kCommunicationsSeeds = 100, kSeedsOfSlow = 20;
constexpr int kDim = 16;

struct Expected {
  double mean, deviation = 0;
};

struct CommunicationsRow {
  const char *topology, *method;
  Expected exchanges[4];  // by kGraphSizes
  double exponent;        // of the number of ranks
};

constexpr CommunicationsRow kCommunicationsRows[] = {
    {"ring", "ad_psgd", {{172, 15}, {1254, 40}, {9245, 207}, {67483, 1134}}, 2.87},
    {"ring", "a2cid2", {{124, 17}, {500, 55}, {1933, 162}, {7781, 270}}, 1.99},
    {"exponential", "ad_psgd", {{89}, {221}, {493}, {1098}}, 1.20},
    {"exponential", "a2cid2", {{85}, {216}, {478}, {1014}}, 1.19},
    {"star", "ad_psgd", {{112}, {290}, {610}, {1286}}, 1.16},
    {"star", "a2cid2", {{106}, {273}, {557}, {1229}}, 1.16},
    {"complete", "a2cid2", {{83}, {202}, {421}, {886}}, 1.13},
};

/// 5 % on the ring and 8 % elsewhere, plus three times the error of the figure.
double tolerance_of(const CommunicationsRow& row, const Expected& e) {
  const double ours = std::string(row.topology) == "ring" ? 0.05 : 0.08;
  return ours + 3 * e.deviation / std::sqrt(20.0) / e.mean;
}

Run run_of(const std::string& topology, int ranks, const std::string& method) {
  Run run;
  run.words = fmt::format("objective=consensus target=0.001 topology={} method={} dim={} ranks={}",
                          topology, method, kDim, ranks);
  return run;
}

/// Means over seeds of the exchanges of each run; a run has one seed.
class Means {
 public:
  void add(const Run& run, uint64_t seeds, const Effort& effort) {
    first_.push_back(runs_.size());
    for (uint64_t k = 0; k < seeds; ++k) {
      runs_.push_back(run);
      runs_.back().seed = effort.seed + k;
    }
  }

  Result<std::vector<double>> measure(const Effort& effort) const {
    std::vector<double> exchanges(runs_.size());
    const Status done = for_all(runs_.size(), effort, [&](size_t k) -> Status {
      const size_t slow_first = runs_.size() - 1 - k;
      const auto summary = perform(runs_[slow_first]);
      if (!summary) return summary.error();
      exchanges[slow_first] = static_cast<double>(summary->exchanges);
      return Done{};
    });
    if (!done) return done.error();
    std::vector<double> means;
    for (size_t k = 0; k < first_.size(); ++k) {
      const size_t end = k + 1 < first_.size() ? first_[k + 1] : runs_.size();
      double sum = 0;
      for (size_t i = first_[k]; i < end; ++i)
        sum += exchanges[i];
      means.push_back(sum / static_cast<double>(end - first_[k]));
    }
    return means;
  }

 private:
  std::vector<Run> runs_;
  std::vector<size_t> first_;  // the first run of each mean
};

/// The slope of log y over log ranks, by least squares.
double exponent_of(const double* means) {
  double x_mean = 0, y_mean = 0, up = 0, down = 0;
  for (size_t k = 0; k < std::size(kGraphSizes); ++k) {
    x_mean += std::log(kGraphSizes[k]) / std::size(kGraphSizes);
    y_mean += std::log(means[k]) / std::size(kGraphSizes);
  }
  for (size_t k = 0; k < std::size(kGraphSizes); ++k) {
    const double x = std::log(kGraphSizes[k]) - x_mean;
    up += x * (std::log(means[k]) - y_mean);
    down += x * x;
  }
  return up / down;
}

}  // namespace

Result<Claims> reproduce_communications(const Effort& effort) {
  Means means;
  for (const CommunicationsRow& row : kCommunicationsRows)
    for (const int ranks : kGraphSizes) {
      const bool slow = row.topology == std::string("ring");
      means.add(run_of(row.topology, ranks, row.method),
                effort.seeds_or(slow ? kSeedsOfSlow : kCommunicationsSeeds), effort);
    }
  const auto measured = means.measure(effort);
  if (!measured) return measured.error();
  Claims claims;
  const double* at = measured->data();
  for (const CommunicationsRow& row : kCommunicationsRows) {
    const std::string of = fmt::format("{}, {}", row.topology, row.method);
    for (size_t k = 0; k < std::size(kGraphSizes); ++k)
      claims.push_back({fmt::format("{}, {} ranks: exchanges", of, kGraphSizes[k]),
                        row.exchanges[k].mean, at[k], tolerance_of(row, row.exchanges[k])});
    claims.push_back(
        {of + ": exponent of the ranks", row.exponent, exponent_of(at), 0.1, Accept::absolute});
    at += std::size(kGraphSizes);
  }
  return claims;
}

}  // namespace grapevine
