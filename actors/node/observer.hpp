// Observer: the actor that samples a run and sends the samples to a sink.
//
// The consensus distance is sampled, never computed per event: each state actor answers with two
// sums over its ranks, relative to the last known mean, which avoids cancellation. On the wall
// clock samples of a large model are rarer than asked for, to leave the cores to the training.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/settings/alarm.hpp"
#include "actors/settings/counters.hpp"
#include "actors/settings/run_hooks.hpp"
#include "actors/settings/samples.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

struct ObserverDependencies {
  RunClock clock;
  double period_s = 0;  // 0: only when asked by Tick{kSampleNow}
  bool spares = false;  // see gap_between_samples; false: always the period
  size_t size = 0;      // of the parameters
  std::shared_ptr<Counters> counters;
  std::vector<StateActor> states;
  Sink sink;
  Alarm divergence;       // raised when the ranks diverge
  int ranks = 0;          // those of the first state, which on_ranks gets
  OnRanks on_ranks = {};  // empty: their parameters are not read
};

/// The sizes that grow without end if a run diverges.
struct Sizes {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double distance = 0;  // the consensus distance
  double moved = 0;     // |mean - the first mean|^2
  // Of the mean: the root mean square of its numbers, now and at first.
  double size = 0, first_size = 0;
  double loss = kNone, first_loss = kNone;  // of gradients; NaN: unknown
  // The pull on a rank (its own gradient in a sum, or the pull of the other ranks), counted in its
  // usual steps, if the guard limits it: the least over all ranks of the run. 0: the guard does not
  // limit some rank, or some rank belongs to another process.
  double pull = 0;
};

/// Whether a run diverges, judged from samples. It does if sizes are not finite; or if in three
/// samples in a row one of these holds: the distance of the ranks has grown from sample to sample,
/// to a million times the first distance and the movement of their mean; the loss is ten thousand
/// times the first one (and above 10,000); the parameters are a million times as large (and above a
/// million) while the loss is no better; every rank is pulled by thirty usual steps and the guard
/// limits this, whether the values still grow or only oscillate.
class DivergenceWatch {
 public:
  /// A line about the quantity that grows; empty: none does.
  std::string sees(const Sizes&);
  /// The same for a single sample, compared with the first sample's distance.
  static std::string far(const Sizes&, double first_distance);

 private:
  static constexpr int kFirst = 3, kInARow = 3;

  double scale_ = 0, before_ = 0;
  int seen_ = 0, growths_ = 0, large_ = 0, pulled_ = 0;
};

/// The sizes of a mean, compared with the first mean. Vectors have one type.
Sizes sizes_of(ConstVec mean, ConstVec first_mean);
Sizes sizes_of(const std::vector<double>& mean, const std::vector<double>& first_mean);

constexpr int kSampleNow = 0, kSamplePeriod = 1;

/// The time until the next sample: the period, or a hundred times the processor time that the last
/// sample took in the observer, if that is longer. The state actors take about as much.
inline double gap_between_samples(double period_s, double sample_cpu_s) {
  return std::max(period_s, 100 * sample_cpu_s);
}

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
  double sample_cpu_s_ = 0;  // processor time of the last sample, or of that in progress
  std::vector<std::shared_ptr<const Buffer>> read_;  // by rank, while they are read
  uint64_t told_before_ = 0;                         // losses, at the sample before
  DivergenceWatch watch_;
  std::vector<double> first_mean_;
  bool diverged_ = false;
  double loss_ = Sizes::kNone;   // the last known
  std::vector<FarEdge> far_;     // of the sample in progress
  std::vector<Alarm> told_far_;  // the active ones
  double loss_before_ = 0;
};

}  // namespace grapevine
