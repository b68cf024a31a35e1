// Summary: the results of a run, without actors. Reports, JSON and curves read it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/algorithms/rule.hpp"
#include "actors/settings/samples.hpp"
#include "app/evaluation/score.hpp"
#include "kernels/memory/vec.hpp"
#include "models/objective.hpp"

namespace grapevine {

struct RankSummary {
  bool alive = false;        // at the end
  double idle_fraction = 0;  // NaN: it has no worker
  uint64_t gradients = 0, exchanges = 0, bytes = 0;
  RuleCounts counts;
  std::shared_ptr<const Buffer> x;  // null if not alive
};

struct EdgeSummary {
  int i = 0, j = 0;  // i < j; edges without an exchange are not listed
  uint64_t exchanges = 0;
};

// At most: curves of more ranks would be larger than all other data.
constexpr int kRanksSampled = 64;

/// Each rank at a sample; NaN: the rank is gone, or the value is not measured.
struct RankSample {
  double at_s = 0;
  // The distances |x_i - mean|^2; the loss of x_i above the least one.
  std::vector<double> distances, suboptimalities;
};

/// The values that the script of a rank reported, by their names.
struct ReportedPoint {
  int rank = 0;
  double at_s = 0;
  uint64_t gradients = 0;
  std::vector<std::pair<std::string, double>> values;
};

struct Curves {
  std::vector<RunSample> samples;  // without the means
  std::vector<TestPoint> tests;
  std::vector<ReportedPoint> reported;
};

struct Summary : RunTotals {
  bool interrupted = false;
  bool drained = false;     // a node that left the others because somebody asked it to
  bool stopped = false;     // drained, and no other node continues the run
  std::string incomplete;   // why gradients of the run were not taken; empty: all were
  Cost cost;                // of the time of the ranks here; zero seconds: none computed
  uint64_t resumed_at = 0;  // the part of `gradients` from earlier lives of the run
  bool virtual_clock = false;
  uint64_t payload_bytes = 0;     // the part of `bytes` without headers
  double consensus_distance = 0;  // at the end
  double relative_distance = 0;   // likewise, as in RunSample
  Buffer mean;                    // of the parameters over ranks
  uint64_t parameter_hash = 0;
  int first_rank = 0;                 // of `ranks`, if other processes have ranks too
  int nodes = 0, ranks_in_mean = 0;   // in a run of several processes
  std::vector<std::string> missing;   // nodes that may not have this mean
  std::vector<std::string> lost;      // nodes that stopped answering and did not come back
  std::vector<Departure> departures;  // of nodes, including this one
  // The weight (push-sum) of ranks here that have left the others.
  double push_weight_lost = 0;
  std::vector<RankSummary> ranks;
  std::vector<EdgeSummary> edges;
  std::vector<RunSample> curve;        // without the means
  std::vector<RankSample> rank_curve;  // on the virtual clock
  std::vector<EpochInfo> epochs;
  std::vector<TestPoint> tests;  // during the run, and of the averaged model at the end
  std::vector<ReportedPoint> reported;
  Curves earlier;              // of the earlier lives of the run
  std::optional<Score> best;   // of these tests, or of an earlier life of the run
  bool stopped_early = false;  // by settings: too many tests without a better one
  // On the virtual clock; else zero.
  uint64_t events = 0, event_log_hash = 0;
  double events_per_second = 0;         // per second of real time
  double norm_start = 0, norm_end = 0;  // |pi x|
  bool reached_target = false;
  // After evaluate().
  Evaluation averaged{TestPoint::kNone, TestPoint::kNone};  // the averaged model
  // Likewise, on the samples that were set aside.
  Evaluation validated{TestPoint::kNone, TestPoint::kNone};
  // A text that the averaged model has written.
  std::string sample;
  std::vector<Evaluation> by_rank;                // of the ranks that are alive
  double worst_rank_accuracy = TestPoint::kNone;  // also if the objective has none
};

}  // namespace grapevine
