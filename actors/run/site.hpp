// Site: the surroundings of the ranks of a process, and a run on one.
#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include "actors/device/nccl_links.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/run/spawned_run.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

class Mailboxes;  // actors/mail/mailboxes.hpp

/// Lets other threads ask the owner of a device to run a task.
ToOwner to_owner(const StateActor&);
OwnerTime time_of_owner(const RunClock&, const StateActor&);

/// Checks the end of a run that was sampled too seldom or never. If it has diverged, this is
/// reported and the outcome is a failure.
void judge_end(const Settings&, const Objective&, const Counters&, const Sink&, Outcome&);

/// The reason, if the guard has scaled most of what was added to each rank: without it the ranks
/// would drift apart. Empty otherwise, and if other nodes have ranks.
std::string held_back(const Settings&, const Outcome&);

/// Reports that a run has diverged.
Alarm raise_divergence(const Settings&, const Sink&, double at_s, const std::string& is);

constexpr std::chrono::seconds kSaveAtMost{60};  // for a run's last checkpoint: a disk may hang

/// The cost of each rank at the end of a run, once `stop_checkpoints` has returned.
std::vector<RankCost> final_costs(Ledgers&, const RunClock&,
                                  const std::function<void()>& stop_checkpoints);

/// The surroundings of the ranks of a process: how frames reach other ranks, and which actor owns
/// membership.
struct Site {
  std::shared_ptr<Mailboxes> mailboxes;
  std::shared_ptr<Transport> transport;
  MembershipActor membership;
  SnapshotPool::Memory memory = SnapshotPool::Memory::own;  // of messages to other ranks
  // On the virtual clock the gradients also go into the hash of all events.
  std::function<void(uint64_t word)> log = [](uint64_t) {};
  std::function<uint64_t()> event_log_hash = [] { return uint64_t{0}; };
};

/// As begin_run, on the caller's site. The ranks wait for Begin and a roster.
SpawnedRun spawn_on(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks, Site,
                    std::function<void(Outcome)> done);

/// Puts frames into the mailboxes of the ranks of this process.
LocalTransport::Deliver deliver_to(std::shared_ptr<const Mailboxes>);

}  // namespace grapevine
