// spawn_run: the actors of a run, in an actor system of the caller's, who sends messages to the
// handles that it returns. This is the place where they are wired by hand.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "actors/checkpointer.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/protocol.hpp"
#include "actors/run/run.hpp"

namespace grapevine {

class Compute;    // actors/compute.hpp
struct Counters;  // actors/counters.hpp
class Mailboxes;  // actors/mailboxes.hpp

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
  RunClock clock;
  std::function<uint64_t()> event_log_hash;  // virtual clock only

  void stop();  // sends every actor its exit, drops the handles
};

/// REQUIRES: check(settings), an objective made for its ranks and at least `threads` threads, which
/// throws as little as the sink. `done` is called once, in an actor.
SpawnedRun spawn_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks,
                     std::function<void(Outcome)> done);

/// Where a device's owner is asked for what others need done on it.
ToOwner to_owner(const StateActor&);

/// Waits for a checkpoint, where there are any, before a run that somebody ends: a minute at most,
/// for a disk that hangs keeps nobody.
void save_last(caf::actor_system&, const SpawnedRun&);

/// What is around the ranks of a process: how frames reach other ranks, and who owns membership.
struct Site {
  std::shared_ptr<Mailboxes> mailboxes;
  std::shared_ptr<Transport> transport;
  MembershipActor membership;
  SnapshotPool::Memory memory = SnapshotPool::Memory::own;  // of what goes to other ranks
  // On the virtual clock: gradients go into a hash of all events too.
  std::function<void(uint64_t word)> log = [](uint64_t) {};
  std::function<uint64_t()> event_log_hash = [] { return uint64_t{0}; };
};

/// As above, on a site of the caller's. The ranks wait for Begin and a roster.
SpawnedRun spawn_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks,
                     Site, std::function<void(Outcome)> done);

/// Puts frames into the mailboxes of the ranks of this process.
LocalTransport::Deliver deliver_to(std::shared_ptr<const Mailboxes>);
void deliver_at(caf::actor_system&, const Mailboxes&, RunClock::Instant, int to, Frame);

}  // namespace grapevine
