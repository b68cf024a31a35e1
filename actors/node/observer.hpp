// Observer: the actor that samples a run and streams what it sees to a sink.
//
// The consensus distance is sampled, never computed per event: each state actor answers with two
// sums over its ranks, taken relative to the last known mean so that nothing cancels.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/settings/alarm.hpp"
#include "actors/settings/counters.hpp"
#include "actors/settings/run_hooks.hpp"
#include "actors/settings/samples.hpp"

namespace grapevine {

struct ObserverDependencies {
  RunClock clock;
  double period_s = 0;  // 0: only when asked by Tick{kSampleNow}
  size_t size = 0;      // of the parameters
  std::shared_ptr<Counters> counters;
  std::vector<StateActor> states;
  Sink sink;
  Alarm divergence;       // what is said when the ranks drift apart
  int ranks = 0;          // whom on_ranks is told of: those of the first state
  OnRanks on_ranks = {};  // empty: nobody is read
};

/// What of a run may grow without end.
struct Sizes {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double distance = 0;  // of consensus
  double moved = 0;     // |mean - the first mean|^2
  // Of the mean: the root mean square of its numbers, and as it was at first.
  double size = 0, first_size = 0;
  double loss = kNone, first_loss = kNone;  // of gradients; NaN: nobody tells any
  // What a round adds to a rank, its own gradient or what the others pull it by, in its usual
  // steps, where the guard holds that back: the least over all ranks of the run. 0: some rank is
  // not held back, or is of another process.
  double pull = 0;
};

/// Whether a run diverges, from samples: of sizes that are not finite; ranks that agreed and whose
/// distance has grown from sample to sample until it is a million times what they began with and
/// what their mean has moved by; a loss ten thousand times what it began with (and above 10,000),
/// or parameters a million times as large (and above a million) where the loss is no better, or
/// thirty usual steps that a round adds to every rank, held back by the guard, three samples in a
/// row, whether they still grow or only swing.
class DivergenceWatch {
 public:
  /// What grows; empty: nothing does.
  std::string sees(const Sizes&);
  /// Of one sample alone, compared with the first one's distance.
  static std::string far(const Sizes&, double first_distance);

 private:
  static constexpr int kFirst = 3, kInARow = 3;

  double scale_ = 0, before_ = 0;
  int seen_ = 0, growths_ = 0, large_ = 0, pulled_ = 0;
};

/// Of a mean, compared with what it was at first.
Sizes sizes_of(std::span<const double> mean, std::span<const double> first_mean);

constexpr int kSampleNow = 0, kSamplePeriod = 1;

class Observer final : public ObserverActor::base {
 public:
  Observer(caf::actor_config& config, ObserverDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void sample();
  void add(const SampleReply&);
  void conclude();
  void read_ranks(RunSample);
  void watch(const RunSample&);
  double least_pull() const;  // Sizes::pull
  void watch_far_edges(double now);

  ObserverDependencies deps_;
  std::shared_ptr<const std::vector<double>> reference_;  // the last known mean
  std::vector<double> sum_;
  double squares_ = 0;
  int ranks_ = 0;
  int ranks_of_run_ = 0;  // of the newest graph
  size_t awaited_ = 0;
  std::vector<std::shared_ptr<const Buffer>> read_;  // by rank, while they are read
  uint64_t told_before_ = 0;                         // losses
  DivergenceWatch watch_;
  std::vector<double> first_mean_;
  bool diverged_ = false;
  double loss_ = Sizes::kNone;   // the last that was told
  std::vector<FarEdge> far_;     // of the sample in progress
  std::vector<Alarm> told_far_;  // that stand
  double loss_before_ = 0;
};

}  // namespace grapevine
