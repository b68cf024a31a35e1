// Cost: what the seconds of a run went to, and how much of them was work.
//
// Rank r counts T seconds, from the beginning of its run to the end, and charges each of them once:
//
//   T = computing_r + exchanges_r + waiting_r + saving_r + start_r + end_r + sum of its faults
//
//   f_r            mean duration of the fastest tenth of its n_r steps; v_r = 1 / f_r is its speed
//   contention_r = computing_r - n_r f_r, what its steps took beyond that
//
// A second of rank r is worth v_r steps. So over all ranks, with V = sum_r v_r:
//
//   work = sum_r n_r / V           in which all ranks at their own speeds take the steps of the run
//   part = sum_r v_r part_r / V    likewise contention, exchanges, waiting, ..., and each fault
//   T    = work + sum of the parts
//
//   efficiency = work / (T - faults)
//
// In a fault a rank is not there or not ready; that time is told, and is not the others' failure.
// Several processes count for themselves, and are added up by their V.
//
// exchanges    from a gradient to the next parameters, without the optimizer's own pass: the state
//              was busy with exchanges. Where a method waits for its neighbours this is waiting
// waiting      no step is left to take; equal shares: others have not done theirs; the pace of a
//              Poisson process
// saving       the state copied a rank for a checkpoint, and the end waited for the disk
// start, end   before the first step; after the last one, with what was under way then
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

/// A cause of lost time. For each kind and rank the first few have an entry of their own.
struct LostTime {
  Lost what = Lost::kill;
  int rank = 0;
  int times = 1;
  double at_s = 0, until_s = 0;  // of the first, of the last
  double seconds = 0;            // of the rank, which it would have used
  double steps = 0;              // that it would have taken in them
};

/// A value: of one rank, by then.
struct RankCost {
  int rank = 0;
  uint64_t steps = 0;
  double fastest_s = 0;  // mean of the fastest tenth of its steps; 0: not known
  double usual_s = 0;    // mean of all; 0: none was taken
  double longest_s = 0;  // from one step to the next, no fault of the rank's own between them
  Parts seconds{};       // those of `work` are steps times fastest_s
  std::vector<LostTime> lost;
};

/// Of all ranks of a process, or of several processes, in seconds of the run.
struct Cost {
  double seconds = 0;  // T
  double speed = 0;    // V; 0: no step was measured, and there is no efficiency
  double steps = 0;
  double longest_s = 0,
         longest_steps = 0;  // between two steps of a rank; in usual ones of that rank
  Parts parts{};
  double faults_s = 0;  // all of `lost`, in seconds of the run
  std::vector<LostTime> lost;

  double efficiency() const {
    if (!(speed > 0 && seconds > faults_s)) return std::numeric_limits<double>::quiet_NaN();
    return parts[static_cast<size_t>(Part::work)] / (seconds - faults_s);
  }
};

/// Their end was that somebody drained their node.
void charge_drain(std::vector<RankCost>&);

Cost cost_of(const std::vector<RankCost>&);
Cost sum_of(const std::vector<Cost>&);  // of processes of one run

}  // namespace grapevine
