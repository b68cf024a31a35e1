// Observer: the actor that samples a run and streams what it sees to a sink.
//
// The consensus distance is sampled, never computed per event: each state actor answers with two
// sums over its ranks, taken relative to the last known mean so that nothing cancels.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
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

/// Whether ranks that agreed drift apart, from samples of their distance: it is not finite, or it
/// has grown from sample to sample until it is a million times what they began with and what their
/// mean has moved by.
class DivergenceWatch {
 public:
  /// `moved`: |mean - the first mean|^2. True: they do.
  bool sees(double distance, double moved);
  /// Of one sample alone: whether it is that far from what it is compared with.
  static bool is_far(double distance, double scale) {
    return !std::isfinite(distance) || (scale > 0 && distance > kFarther * scale);
  }

 private:
  static constexpr double kFarther = 1e6;
  static constexpr int kFirst = 3, kGrowths = 3;

  double scale_ = 0, before_ = 0;
  int seen_ = 0, growths_ = 0;
};

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
  void watch_far_edges(double now);

  ObserverDependencies deps_;
  std::shared_ptr<const std::vector<double>> reference_;  // the last known mean
  std::vector<double> sum_;
  double squares_ = 0;
  int ranks_ = 0;
  size_t awaited_ = 0;
  std::vector<std::shared_ptr<const Buffer>> read_;  // by rank, while they are read
  uint64_t told_before_ = 0;                         // losses
  DivergenceWatch watch_;
  std::vector<double> first_mean_;
  bool diverged_ = false;
  std::vector<FarEdge> far_;      // of the sample in progress
  std::vector<Alarm> told_far_;   // that stand
  double loss_before_ = 0;
};

}  // namespace grapevine
