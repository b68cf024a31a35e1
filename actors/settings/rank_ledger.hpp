// RankLedger: how a rank spends its time, and how fast its fastest steps were, in bounded memory.
// cost.hpp defines the parts.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "actors/settings/cost.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// The durations of a rank's steps, in bounded memory: bins an eighth of an octave wide, each with
/// its own mean.
class StepDurations {
 public:
  void add(double seconds, uint64_t steps);
  double fastest_tenth() const;  // their mean; 0: there are no steps

 private:
  struct Bin {
    uint64_t steps = 0;
    double sum_s = 0;
  };
  std::map<int, Bin> bins_;
  uint64_t steps_ = 0;
};

/// The account of a rank's time from time 0 on. Any thread may call it. A time before the last one
/// counts as the last one.
class RankLedger {
 public:
  // Called by the rank's worker; ignored from a worker that the node has replaced.
  void compute(double now);                       // a step begins or continues
  void computed(double now, uint64_t steps = 1);  // the step will now be applied
  /// The step was applied: the rule's own pass took own_s, and the state last worked for a
  /// checkpoint between the two times.
  void applied(double now, double own_s, double saved_from_s, double saved_until_s);
  void wait(double now);                      // for a step to take
  void stand(Lost, double now, double at_s);  // until it computes, waits or calls back()
  void back(double now);                      // to what it did before

  // Called by the node.
  void begin(int rank, bool waits);  // a worker begins; `waits`: its method waits for neighbours
  void lose(Lost, double now);       // its worker is lost
  /// The whole process stood still: takes back what was charged in this time, and charges it to
  /// `silence`.
  void stood_still(double from_s, double until_s);
  void end(double now);   // the run ends; later work counts as no step
  void save(double now);  // after the end: waits for the disk

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
  // The part to which the time between a gradient and the next parameters is charged.
  Part gap_ GV_GUARDED_BY(mutex_) = Part::exchanges;
  Doing doing_ GV_GUARDED_BY(mutex_) = Doing::starting;
  Doing before_ GV_GUARDED_BY(mutex_) = Doing::starting;
  bool serves_ GV_GUARDED_BY(mutex_) = false, ended_ GV_GUARDED_BY(mutex_) = false;
  bool has_begun_ GV_GUARDED_BY(mutex_) = false;
  double since_s_ GV_GUARDED_BY(mutex_) = 0;
  struct {  // the last charge that may include a stop of the process
    Doing what = Doing::starting;
    bool is_of_step = false;  // it belongs to a step that is computed or applied
    double from_s = 0, until_s = 0;
  } long_ GV_GUARDED_BY(mutex_);
  Parts seconds_ GV_GUARDED_BY(mutex_){};         // without work and contention
  double computing_s_ GV_GUARDED_BY(mutex_) = 0;  // of computed steps
  double spell_s_ GV_GUARDED_BY(mutex_) = 0;      // of the present one
  double pending_s_ GV_GUARDED_BY(mutex_) = 0;    // of the last one, not in durations_ yet
  uint64_t pending_ GV_GUARDED_BY(mutex_) = 0, steps_ GV_GUARDED_BY(mutex_) = 0;
  double gap_s_ GV_GUARDED_BY(mutex_) = 0;       // since it was computed, not in seconds_ yet
  double gap_from_s_ GV_GUARDED_BY(mutex_) = 0;  // the time when it was computed
  bool follows_ GV_GUARDED_BY(mutex_) = false;   // no fault between that step and the next
  double longest_s_ GV_GUARDED_BY(mutex_) = 0;   // the longest time between two such steps
  StepDurations durations_ GV_GUARDED_BY(mutex_);
  std::vector<LostTime> lost_ GV_GUARDED_BY(mutex_);
  size_t open_ GV_GUARDED_BY(mutex_) = 0;  // index in lost_ while doing_ is `lost`
};

using Ledgers = std::vector<RankLedger>;  // of the ranks of a process, by place

std::vector<RankCost> costs_of(Ledgers&, double now);

}  // namespace grapevine
