// Worker: the actor that computes a rank's gradients at its own speed and never waits for another
// rank.
//
//   Parameters (a lease of x)  ->  Compute  ->  Computed (loss, g)  ->  Gradient to state  ->
//   Parameters ...
//
// Greedy: the next gradient starts when the step of the last one is taken. Poisson: gradients start
// at the events of a Poisson process of rate 1 / gradient_s; on the virtual clock such an event
// takes no time. If the rounds of a method do not wait, ranks on the virtual clock start at
// different times, up to one gradient's time apart: in real runs unsynchronised ranks do not start
// in the same instant. A user's own worker (OwnWorker) may be slow or fail without any effect on
// other ranks.
#pragma once
#include <memory>
#include <utility>

#include "actors/clocks/run_clock.hpp"
#include "actors/compute/compute.hpp"
#include "actors/mail/protocol.hpp"
#include "actors/settings/run_hooks.hpp"

namespace grapevine {

struct Counters;   // actors/settings/counters.hpp
class RankLedger;  // actors/settings/rank_ledger.hpp
class WorkPool;    // actors/rank/work_pool.hpp

struct WorkerDependencies {
  int rank = 0;
  int place = 0;  // among the ranks here; stays the same if the rank gets another number
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  uint64_t horizon = 0;            // gradients of this rank; 0: no limit
  std::shared_ptr<WorkPool> pool;  // it takes gradients from the pool instead; null: no pool
  uint64_t resumed_at = 0;         // gradients of an earlier life
  double trained_s = 0;            // seconds of the run's clock in all earlier lives
  // Expected mean; the Poisson rate, and the time unit of a schedule without an end.
  double gradient_s = 1;
  std::shared_ptr<Compute> compute;
  std::shared_ptr<Counters> counters;
  std::shared_ptr<RankLedger> ledger;  // of its time
  StateActor state;
  NodeActor node;
};

/// A worker of your own: a function that computes a gradient of one rank. The library does the
/// rest: pace, learning rate, counts, pauses, the end.
///
/// If a function throws, the worker fails with that text; the node asks RunHooks::make_worker for
/// another one, which continues, and after five failures the rank is gone. A loss that is not a
/// number ends the run. Under the wall clock each worker computes in a thread of its own, so a slow
/// one delays no other rank, but the end of the actor system waits for a gradient that has begun.
/// Under the virtual clock it computes in the thread that runs the clock.
class OwnWorker {
 public:
  virtual ~OwnWorker() = default;
  /// Writes the rank's gradient number `index` at x to g and returns the loss. One call at a time.
  virtual double gradient(uint64_t index, ConstVec x, Vec g) = 0;
  /// Its duration on the virtual clock, before a plan slows the rank down; 0: settings.gradient_s.
  virtual double seconds(uint64_t /*index*/) { return 0; }
};

/// The result of a MakeWorker (run_hooks.hpp). Set one in RunHooks to use your own worker.
struct SpawnedWorker {
  SpawnedWorker() = default;  // no worker: the rank computes nothing
  SpawnedWorker(WorkerActor made) : actor(std::move(made)) {}

  WorkerActor actor;
};

/// A worker whose gradients the objective computes.
WorkerActor spawn_worker(caf::actor_system&, WorkerDependencies);
/// A worker whose gradients your own computes, in the host's memory. Throws std::system_error if
/// its thread cannot start; in a MakeWorker this ends the run with the reason.
WorkerActor spawn_own_worker(caf::actor_system&, WorkerDependencies, std::unique_ptr<OwnWorker>);

/// A WorkerActor that is written by hand calls this for each gradient that it sends to the state
/// actor. Samples use the counts.
void count_gradient(Counters&, double loss, double lr);

}  // namespace grapevine
