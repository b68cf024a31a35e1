// run: one run from settings to outcome, in this process, under the clock that the settings name.
//
// The actors are the same under both clocks; this is the place where they are wired by hand.
// Whoever wants them in an actor system of her own calls `spawn_run` and sends messages to the
// handles that it returns.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "actors/node.hpp"
#include "actors/run/settings.hpp"
#include "actors/topology_manager.hpp"

namespace grapevine {

struct RunHooks {
  Sink sink;
  MakeWorker make_worker;                        // empty: spawn_worker
  const std::atomic<int>* interrupts = nullptr;  // Ctrl+C so far: at 1 the run drains and saves
  // Of graphs and their rates; runs in one process may share it.
  std::shared_ptr<SpectrumCache> spectra = std::make_shared<SpectrumCache>();
};

struct RunResult {
  Outcome outcome;
  // The virtual clock's, else zero.
  uint64_t events = 0;           // firings of the clock: timers and frames
  double events_per_second = 0;  // of real time, set-up excluded
  uint64_t event_log_hash = 0;
  double consensus_norm_start = 0, consensus_norm_end = 0;  // |pi x|
  bool reached_target = false;
};

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
  std::vector<StateActor> states;
  std::shared_ptr<Compute> compute;
  std::shared_ptr<Counters> counters;
  RunClock clock;
  std::function<uint64_t()> event_log_hash;  // virtual clock only

  void stop();  // sends every actor its exit, drops the handles
};

/// The objective that the settings ask for, made for their ranks, seed and compute threads.
Result<std::shared_ptr<Objective>> make_objective(const Settings&);

/// REQUIRES: check(settings), an objective made for its ranks and at least `threads` threads.
/// `done` is called once, in an actor.
SpawnedRun spawn_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>, RunHooks,
                     std::function<void(Outcome)> done);

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

/// Runs to the end and returns it. REQUIRES: as spawn_run.
RunResult run(const Settings&, std::shared_ptr<Objective>, RunHooks);

/// How many threads compute gradients under these settings; what the objective must be made with.
int compute_threads(const Settings&);

/// sum / n in `dtype`; the sum is fp64.
Buffer mean_of(ConstVec sum, double n, DType dtype);

/// The mean of the parameters over ranks, in the layout's dtype.
Buffer mean_parameters(const Outcome&);

/// Mean over ranks of |x_i - mean|^2.
double consensus_distance(const Outcome&);

/// FNV-1a over all ranks' parameters: equal for equal bits.
uint64_t parameter_hash(const Outcome&);

}  // namespace grapevine
