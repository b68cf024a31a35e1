// The reports of a run, during the run and at its end. Values without actors.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/algorithms/rule_settings.hpp"
#include "actors/conversations/counts.hpp"
#include "actors/settings/alarm.hpp"
#include "actors/settings/cost.hpp"
#include "kernels/base/result.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

struct RunSample {
  double at_s = 0;
  uint64_t gradients = 0, exchanges = 0, bytes = 0;
  double loss = 0;  // mean over the gradients since the last sample; NaN: none
  // Of the newest gradient; NaN: unknown.
  double learning_rate = std::numeric_limits<double>::quiet_NaN();
  // Of the run's work, 0 to 1, if its ranks share a pool; else NaN.
  double progress = std::numeric_limits<double>::quiet_NaN();
  double consensus_distance = 0;  // mean over ranks of |x_i - mean|^2
  // sqrt(consensus_distance) / |mean|; NaN: unknown.
  double relative_distance = std::numeric_limits<double>::quiet_NaN();
  // Of the mean; NaN: not tested.
  double suboptimality = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();
  int ranks = 0;
  std::shared_ptr<const std::vector<double>> mean;  // of the parameters over ranks; may be null
};

struct EpochInfo {
  uint64_t epoch = 0;
  double at_s = 0;         // when it began
  double solved_at_s = 0;  // when these constants were found
  std::string topology;
  int ranks = 0;
  double chi1 = 0, chi2 = 0, eta = 0, alpha_tilde = 0;
  double relay_delay = 0;  // of the graph's trees, if the method relays
};

struct RunTotals {
  std::optional<Error> failure;  // why the run ended early
  std::optional<Alarm> alarm;    // the run has diverged
  double seconds = 0;            // of the run's clock, without the drain
  uint64_t gradients = 0, exchanges = 0;
  uint64_t frames = 0, bytes = 0;  // sent
  Counts counts;                   // sums over ranks; the longest offer is the maximum
  double broken_after_norm = 0;    // the sum of the norms of jumps whose other half may be missing
  double conserved_error = 0;      // as in Collected; NaN: not audited
  bool quiet = true;               // no exchange is half-done
};

struct PeerTraffic {
  int peer = 0;
  uint32_t declined = 0;  // its offers that were declined
  uint64_t bytes = 0;     // sent to it
};
struct CommunicatorReport {
  int rank = 0;
  bool quiet = true;
  uint64_t frames = 0, bytes = 0;  // sent
  Counts counts;
  std::vector<EdgeCount> edges;
  std::vector<PeerTraffic> traffic;  // by rising peer
  uint64_t overflowed = 0;           // messages for which a paused rank had no room
};

struct WorkerReport {
  int rank = 0;
  uint64_t gradients = 0;
  double idle_s = 0, alive_s = 0;  // idle: neither computing nor queued for a compute thread
  // Its script does something else for a while: no rate is measured.
  bool stands = false;
  uint64_t resumed_at = 0;  // gradients of an earlier life
  bool has_begun = false;   // the worker knows its rank's gradients; else `gradients` is 0
  double loss = std::numeric_limits<double>::quiet_NaN();  // the last one; NaN: none
};
struct RankParameters {
  int rank = 0;
  RuleCounts counts;
  std::shared_ptr<const Buffer> x;  // null: no such rank
  bool is_apart = false;            // from all its neighbours, so in no mean (actors/guard)
  double reach = std::numeric_limits<double>::infinity();  // of its guard
};

/// The outcome of one process, at the end.
struct Outcome : RunTotals {
  int first_rank = 0;                 // of the ranks here, some of which may be gone
  std::vector<WorkerReport> workers;  // by rank
  std::vector<CommunicatorReport> communicators;
  std::vector<RankParameters> parameters;  // by rank, at one time
  std::vector<RankCost> costs;             // by place, of the ranks that had a worker

  void fail(const Alarm& divergence) {
    alarm = divergence;
    if (!failure) failure = world_error(divergence.line());
  }
};

/// Ranks that a run has lost because their node left or died. The mean over ranks jumps then.
struct Departure {
  std::string node;
  bool polite = false;
  int ranks = 0, of = 0;  // out of this many
  double at_s = 0;
  // The norm of the jump. The node that leaves measures its own. Others estimate it: (ranks / of)
  // times the root mean square of the last seen |x_i - x_j| between a rank i here and a rank j of
  // that node. NaN: unknown here.
  double mean_changed_by = std::numeric_limits<double>::quiet_NaN();
};

/// The run calls these functions, never two at a time. An exception ends the run, which fails with
/// its text. Under the wall clock a thread of the run calls them: one that computes or one that
/// serves actors, never the caller's. So a slow function delays gradients and exchanges, and one
/// that waits for the run may wait for ever. Under the virtual clock the thread that runs the clock
/// calls them. What they refer to must live until run returns, or until the Outcome of spawn_run.
struct Sink {
  std::function<void(const RunSample&)> on_sample;
  std::function<void(const EpochInfo&)> on_epoch;
  std::function<void(const std::string&)> on_event;  // a rank lost, restarted, ...: one line
  std::function<void(const Alarm&)> on_alarm;        // each once; on_event gets its line first

  void raise(const Alarm& alarm) const {
    if (on_event) on_event((alarm.over ? kAlarmOver : kAlarm) + alarm.line());
    if (on_alarm) on_alarm(alarm);
  }
};

}  // namespace grapevine
