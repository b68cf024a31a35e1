// Cost: how a run spent its seconds, and what share of them was work.
//
// Rank r has T seconds, from the beginning of its run to the end. Each is charged once:
//
//   T = computing_r + exchanges_r + waiting_r + saving_r + start_r + end_r + sum of its faults
//
//   f_r            mean duration of the fastest tenth of its n_r steps; v_r = 1 / f_r is its speed
//   contention_r = computing_r - n_r f_r, the rest of the time of its steps
//
// A second of rank r is worth v_r steps. So over all ranks, with V = sum_r v_r:
//
//   work = sum_r n_r / V           all ranks at their own speeds take the steps in this time
//   part = sum_r v_r part_r / V    likewise contention, exchanges, waiting, ..., and each fault
//   T    = work + sum of the parts
//
//   efficiency = work / (T - faults)
//
// During a fault a rank is gone or not ready. This time is reported, and does not lower the
// efficiency. Several processes compute their costs separately; sum_of adds them, weighted by V.
//
// exchanges    from a gradient to the next parameters, without the optimizer's own pass: the state
//              was busy with exchanges. If a method waits for its neighbours, this is waiting
// waiting      no step is left to take; with equal shares others still have theirs; the pace of a
//              Poisson process
// saving       the state copied a rank for a checkpoint, and the end waited for the disk
// start, end   before the first step; after the last one, with the work that was under way then
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace grapevine {

enum class Part { work, contention, waiting, exchanges, saving, start, end };
constexpr std::array<const char*, 7> kPartNames = {"work",   "contention", "waiting", "exchanges",
                                                   "saving", "start",      "end"};
using Parts = std::array<double, kPartNames.size()>;  // seconds by part

enum class Lost { kill, failure, pause, join, script, silence, drain };
constexpr std::array<const char*, 7> kLostNames = {"kill",   "failure", "pause", "join",
                                                   "script", "silence", "drain"};

/// A cause of lost time. The first few of each kind and rank have their own entries.
struct LostTime {
  Lost what = Lost::kill;
  int rank = 0;
  int times = 1;
  double at_s = 0, until_s = 0;  // of the first, and of the last
  double seconds = 0;            // of the rank's time
  double steps = 0;              // that the rank would have taken in this time
};

/// The cost of one rank so far. A value.
struct RankCost {
  int rank = 0;
  uint64_t steps = 0;
  double fastest_s = 0;  // mean of the fastest tenth of its steps; 0: unknown
  double usual_s = 0;    // mean of all; 0: there are none
  double longest_s = 0;  // between two steps, without a fault of this rank
  Parts seconds{};       // that of `work` is steps times fastest_s
  std::vector<LostTime> lost;
};

/// The cost of all ranks of a process, or of several processes, in seconds of the run.
struct Cost {
  double seconds = 0;  // T
  double speed = 0;    // V; 0: no step was measured, and there is no efficiency
  double steps = 0;
  double longest_s = 0,
         // The longest time between two steps of a rank; the same in its usual steps.
      longest_steps = 0;
  Parts parts{};
  double faults_s = 0;  // the sum of `lost`, in seconds of the run
  std::vector<LostTime> lost;

  double efficiency() const {
    if (!(speed > 0 && seconds > faults_s)) return std::numeric_limits<double>::quiet_NaN();
    return parts[static_cast<size_t>(Part::work)] / (seconds - faults_s);
  }
};

/// Charges the end of these ranks to the drain of their node.
void charge_drain(std::vector<RankCost>&);

Cost cost_of(const std::vector<RankCost>&);
Cost sum_of(const std::vector<Cost>&);  // of the processes of one run

}  // namespace grapevine
