// RankLedger: what a rank does with its time, and how fast its fastest steps were, in bounded
// memory. cost.hpp says what is charged to what.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "actors/settings/cost.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// How long the steps of a rank took, in bounded memory: by bins an eighth of an octave wide, which
/// know their own mean.
class StepDurations {
 public:
  void add(double seconds, uint64_t steps);
  double fastest_tenth() const;  // the mean; 0: there are none

 private:
  struct Bin {
    uint64_t steps = 0;
    double sum_s = 0;
  };
  std::map<int, Bin> bins_;
  uint64_t steps_ = 0;
};

/// The account of a rank's time, from time 0 on. Any thread may call. A time before the last one
/// counts as the last one.
class RankLedger {
 public:
  // Its worker's, whichever that is: not heard of one that the node has given up.
  void compute(double now);                       // a step begins, or goes on
  void computed(double now, uint64_t steps = 1);  // it is to be applied
  /// It has been: the rank's own pass took so long, and the state was last at work for a checkpoint
  /// from then until then.
  void applied(double now, double own_s, double saved_from_s, double saved_until_s);
  void wait(double now);                      // for a step to take
  void stand(Lost, double now, double at_s);  // until it computes, waits or is back
  void back(double now);                      // to what it did before

  // Its node's.
  void begin(int rank, bool waits);  // a worker does; whether its method waits for neighbours
  void lose(Lost, double now);       // the worker that it had
  /// The whole process stood still, whatever the rank was at then: what it has charged meanwhile is
  /// taken back.
  void stood_still(double from_s, double until_s);
  void end(double now);   // the run's: what comes later is no step of it
  void save(double now);  // after the end: it waits for the disk

  bool has_begun();
  RankCost cost(double now);

 private:
  enum class Doing { starting, computing, applying, waiting, lost, ending, saving };

  bool is_heard() const GV_REQUIRES(mutex_) { return serves_ && !ended_; }
  void charge(double now) GV_REQUIRES(mutex_);
  void turn(Doing, double now) GV_REQUIRES(mutex_);
  void close_step(double own_s) GV_REQUIRES(mutex_);
  LostTime& open(Lost, double now, double at_s) GV_REQUIRES(mutex_);
  LostTime& account_of(Lost, double at_s) GV_REQUIRES(mutex_);
  double& charged(Doing) GV_REQUIRES(mutex_);
  double& part(Part p) GV_REQUIRES(mutex_) { return seconds_[static_cast<size_t>(p)]; }

  Mutex mutex_;
  int rank_ GV_GUARDED_BY(mutex_) = 0;
  // The part to which time between a gradient and the next parameters is charged.
  Part gap_ GV_GUARDED_BY(mutex_) = Part::exchanges;
  Doing doing_ GV_GUARDED_BY(mutex_) = Doing::starting;
  Doing before_ GV_GUARDED_BY(mutex_) = Doing::starting;
  bool serves_ GV_GUARDED_BY(mutex_) = false, ended_ GV_GUARDED_BY(mutex_) = false;
  bool has_begun_ GV_GUARDED_BY(mutex_) = false;
  double since_s_ GV_GUARDED_BY(mutex_) = 0;
  struct {  // the last charge that may hide that the process stood still
    Doing what = Doing::starting;
    bool is_of_step = false;  // it belongs to a step that has been computed, or applied
    double from_s = 0, until_s = 0;
  } long_ GV_GUARDED_BY(mutex_);
  Parts seconds_ GV_GUARDED_BY(mutex_){};         // but of work and contention
  double computing_s_ GV_GUARDED_BY(mutex_) = 0;  // of steps that were computed
  double spell_s_ GV_GUARDED_BY(mutex_) = 0;      // of the one under way
  double pending_s_ GV_GUARDED_BY(mutex_) = 0;    // of the last one, not in durations_ yet
  uint64_t pending_ GV_GUARDED_BY(mutex_) = 0, steps_ GV_GUARDED_BY(mutex_) = 0;
  double gap_s_ GV_GUARDED_BY(mutex_) = 0;       // since it was computed, not in seconds_ yet
  double gap_from_s_ GV_GUARDED_BY(mutex_) = 0;  // when that was
  bool follows_ GV_GUARDED_BY(mutex_) = false;   // the next step does on the one of gap_from_s_
  double longest_s_ GV_GUARDED_BY(mutex_) = 0;   // between two such
  StepDurations durations_ GV_GUARDED_BY(mutex_);
  std::vector<LostTime> lost_ GV_GUARDED_BY(mutex_);
  size_t open_ GV_GUARDED_BY(mutex_) = 0;  // in it, where doing_ is lost
};

using Ledgers = std::vector<RankLedger>;  // of the ranks of a process, by place

std::vector<RankCost> costs_of(Ledgers&, double now);

}  // namespace grapevine
