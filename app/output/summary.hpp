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
  double idle_fraction = 0;  // NaN: no worker to ask
  uint64_t gradients = 0, exchanges = 0, bytes = 0;
  RuleCounts counts;
  std::shared_ptr<const Buffer> x;  // null where not alive
};

struct EdgeSummary {
  int i = 0, j = 0;  // i < j; an edge that no exchange used is not listed
  uint64_t exchanges = 0;
};

constexpr int kRanksSampled = 64;  // at most: curves of more would be larger than all else

/// Each rank at a sample, by itself; NaN of one that is gone, or that is not judged.
struct RankSample {
  double at_s = 0;
  std::vector<double> distances, suboptimalities;  // |x_i - mean|^2; loss of x_i above the least
};

/// What the script of a rank has measured, as it names it.
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
  bool stopped = false;     // and was the last one: nobody goes on with the run
  std::string incomplete;   // why a part of the run's gradients was not taken; empty: all were
  Cost cost;                // of the time of the ranks here; no seconds: none computed
  uint64_t resumed_at = 0;  // of the gradients: those of earlier lives of the run
  bool virtual_clock = false;
  uint64_t payload_bytes = 0;     // of the bytes: without the frames' headers
  double consensus_distance = 0;  // at the end
  double relative_distance = 0;   // likewise, as in RunSample
  Buffer mean;                    // of the parameters over ranks
  uint64_t parameter_hash = 0;
  int first_rank = 0;                 // of `ranks`, where others are elsewhere
  int nodes = 0, ranks_in_mean = 0;   // of a run of several processes
  std::vector<std::string> missing;   // nodes of whom it is not known that they have this mean
  std::vector<std::string> lost;      // nodes that answered no more, and did not come back
  std::vector<Departure> departures;  // of nodes, the own one among them
  double push_weight_lost = 0;        // push-sum's, of ranks here that have left the others
  std::vector<RankSummary> ranks;
  std::vector<EdgeSummary> edges;
  std::vector<RunSample> curve;        // without the means
  std::vector<RankSample> rank_curve;  // the virtual clock's
  std::vector<EpochInfo> epochs;
  std::vector<TestPoint> tests;  // while it ran, and of the averaged model at the end
  std::vector<ReportedPoint> reported;
  Curves earlier;              // of the lives of the run before this one
  std::optional<Score> best;   // of them, or of an earlier life of the run
  bool stopped_early = false;  // so many tests without a better one
  // The virtual clock's, else zero.
  uint64_t events = 0, event_log_hash = 0;
  double events_per_second = 0;         // of real time
  double norm_start = 0, norm_end = 0;  // |pi x|
  bool reached_target = false;
  // After evaluate().
  Evaluation averaged{TestPoint::kNone, TestPoint::kNone};   // the averaged model
  Evaluation validated{TestPoint::kNone, TestPoint::kNone};  // likewise, on what was set aside
  std::string sample;                                        // a text that it has written
  std::vector<Evaluation> by_rank;                           // of the ranks that are alive
  double worst_rank_accuracy = TestPoint::kNone;             // and where the objective has none
};

}  // namespace grapevine
