// SpawnedRun: the actors of a run and the objects that they need, connected by hand.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/protocol.hpp"
#include "actors/run/run.hpp"
#include "actors/settings/rank_ledger.hpp"

namespace grapevine {

class Compute;    // actors/compute/compute.hpp
struct Counters;  // actors/settings/counters.hpp
class WorkPool;   // actors/rank/work_pool.hpp

struct SpawnedRun {
  NodeActor node;
  TopologyManagerActor manager;
  MembershipActor membership;  // takes Reconfigure
  ObserverActor observer;
  FaultsActor faults;
  CheckpointerActor checkpointer;  // null: there are no checkpoints
  std::vector<StateActor> states;
  std::shared_ptr<Compute> compute;
  std::shared_ptr<Counters> counters;
  std::shared_ptr<Ledgers> ledgers;  // of the ranks' time
  std::shared_ptr<WorkPool> pool;    // null: each rank takes an equal number of gradients
  RunClock clock;
  std::function<uint64_t()> event_log_hash;  // virtual clock only

  /// Sends an exit to every actor and drops the handles. Waits for the threads that compute, which
  /// run actors too: no actor may call it that they may run.
  void stop();
};

/// The actors of a run of one process, which begins.
/// Throws std::system_error if a thread of the system or of the computation could not start.
/// REQUIRES: check(settings) accepts; the objective and the hooks are guarded (guarded.hpp). An
/// actor calls `done` once.
SpawnedRun begin_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks,
                     std::function<void(Outcome)> done);

}  // namespace grapevine
