// spawn_run: the actors of a run, in the caller's actor system, connected by hand. The caller sends
// messages to the returned handles.
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

/// The configuration of an actor system for a run: the virtual clock, or a scheduler that idles
/// cheaply.
class RunSystemConfig : public caf::actor_system_config {
 public:
  explicit RunSystemConfig(Clock clock);
};

/// The actors of a run, which have begun, and the objects that they need.
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

  void stop();  // sends an exit to every actor and drops the handles
};

/// Throws std::system_error if a thread of the system or of the computation could not start.
/// REQUIRES: check(settings) accepts; the objective is made for the ranks and for `threads` threads
/// or more; neither it nor the sink throws. An actor calls `done` once.
SpawnedRun spawn_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks,
                     std::function<void(Outcome)> done);

/// Runs on the virtual clock in the calling thread: first what is ready, then one timer or frame
/// after the other, until `enough` returns true (it is called before each) or none is left.
void run_virtual(caf::actor_system&, const std::function<bool()>& enough);
/// Ends such a run: ends its actors and drops what is still due.
void stop_virtual(caf::actor_system&, SpawnedRun&);

}  // namespace grapevine
