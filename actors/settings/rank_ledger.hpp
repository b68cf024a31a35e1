// RankLedger: what a rank does with its time, and how fast its fastest steps were, in bounded
// memory. cost.hpp says what is charged to what.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "actors/settings/cost.hpp"

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

  bool is_heard() const { return serves_ && !ended_; }
  void charge(double now);
  void turn(Doing, double now);
  void settle(double own_s);
  LostTime& open(Lost, double now, double at_s);
  LostTime& account_of(Lost, double at_s);
  double& charged(Doing);
  double& part(Part p) { return seconds_[static_cast<size_t>(p)]; }

  std::mutex mutex_;
  int rank_ = 0;
  Part gap_ = Part::exchanges;  // what time between a gradient and the next parameters is
  Doing doing_ = Doing::starting, before_ = Doing::starting;
  bool serves_ = false, ended_ = false, has_begun_ = false;
  double since_s_ = 0;
  struct {
    Doing what = Doing::starting;
    bool is_settled = false;  // it belongs to a step that has been computed, or applied
    double from_s = 0, until_s = 0;
  } long_;                  // the last charge that may hide that the process stood still
  Parts seconds_{};         // but of work and contention
  double computing_s_ = 0;  // of steps that were computed
  double spell_s_ = 0;      // of the one under way
  double pending_s_ = 0;    // of the last one, not in durations_ yet
  uint64_t pending_ = 0, steps_ = 0;
  double gap_s_ = 0, gap_from_s_ = 0;  // since it was computed, not in seconds_ yet
  bool follows_ = false;               // the next step does on one that was computed at gap_from_s_
  double longest_s_ = 0;               // between two such
  StepDurations durations_;
  std::vector<LostTime> lost_;
  size_t open_ = 0;  // in it, where doing_ is lost
};

using Ledgers = std::vector<RankLedger>;  // of the ranks of a process, by place

std::vector<RankCost> costs_of(Ledgers&, double now);

}  // namespace grapevine
