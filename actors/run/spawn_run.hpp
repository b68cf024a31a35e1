// spawn_run: the actors of a run, in the caller's actor system. The caller sends messages to the
// returned handles. The actors are connected by hand here.
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

/// The actors of a run, which have begun, and what else it must keep alive.
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
  std::shared_ptr<WorkPool> pool;  // null: each rank has its own share
  RunClock clock;
  std::function<uint64_t()> event_log_hash;  // virtual clock only

  void stop();  // sends every actor its exit, drops the handles
};

/// Throws std::system_error if a thread of the system or of the computation could not start.
/// REQUIRES: check(settings), an objective made for its ranks and at least `threads` threads, which
/// throws as little as the sink. `done` is called once, in an actor.
SpawnedRun spawn_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks,
                     std::function<void(Outcome)> done);

/// On the virtual clock, whose time passes in the caller: runs what is ready, then fires one timer
/// or frame after the other until `enough`, which is asked after each, or there is none left.
void run_virtual(caf::actor_system&, const std::function<bool()>& enough);
/// And the end of a run there: its actors end, and what is still due is dropped.
void stop_virtual(caf::actor_system&, SpawnedRun&);

}  // namespace grapevine
