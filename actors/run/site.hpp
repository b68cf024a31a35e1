// Site: the surroundings of the ranks of a process, and a run on one.
#pragma once
#include <functional>
#include <memory>

#include "actors/device/nccl_links.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/run/spawn_run.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

class Mailboxes;  // actors/mail/mailboxes.hpp

/// How other threads ask the owner of a device to run something.
ToOwner to_owner(const StateActor&);
OwnerTime time_of_owner(caf::actor_system&, const RunClock&, const StateActor&);

/// Checks the end of a run that was sampled too seldom or never: if it has diverged, this is
/// reported, and the outcome is a failure.
void judge_end(const Settings&, const Objective&, const Counters&, const Sink&, Outcome&);

/// Whether the guard has scaled most of what was added to each rank, of a run whose ranks are all
/// here: what would grow without it. Empty: it has not.
std::string held_back(const Settings&, const Outcome&);

/// Waits for a checkpoint, where there are any, before a run that somebody ends: a minute at most,
/// for a disk that hangs keeps nobody.
void save_last(caf::actor_system&, const SpawnedRun&);

/// At the end of a run, once `stop_checkpoints` has returned: what the time of its ranks went to.
std::vector<RankCost> final_costs(Ledgers&, const RunClock&,
                                  const std::function<void()>& stop_checkpoints);

/// The surroundings of the ranks of a process: how frames reach other ranks, and which actor owns
/// membership.
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
