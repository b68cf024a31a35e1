// spawn_run: a run in the caller's actor system, as one actor.
//
//   RunSystemConfig config(settings.clock);
//   caf::actor_system system{config};
//   const Result<RunActor> run = spawn_run(system, settings, objective);  // it has not begun
//   caf::anon_send(*run, Subscribe{listener});                            // misses nothing
//   caf::anon_send(*run, Start{});
//
// The RunActor is the only handle of a run. It answers requests before, during and after the run,
// each with a line or with a caf::error that states the reason:
//
//   Start         begins; a second one does nothing
//   Finish        ends as at `until_s`: exchanges finish, and listeners get the Outcome
//   Reconfigure   another graph; error: it cannot be made, or the method cannot use it
//   KillRank      ends a rank; error: there is none with this number, or it is gone
//   RestartRank   brings a rank back with the state of a neighbour; a living one is ended first
//   Report        the work so far, a RanksReport; after the run: that at its end
//   Subscribe     a listener gets what happens from then on; after the run: the Outcome at once
//
// A listener is any actor, of this or of another actor system of the process. It gets RunSample,
// EpochInfo, std::string (a line about an event), Alarm, and last, once, Outcome. Its `failure`
// says why a run ended early, such as an exception of the objective, of a worker or of a hook. A
// listener that ignores some of them calls set_default_handler(caf::drop). If a listener ends, the
// run continues. The run keeps its listeners until the Outcome; so a listener may hold the
// RunActor.
//
// Ownership. The run ends, and releases its threads and memory, when the RunActor does: when its
// last handle is destroyed, or by an exit message, as from an actor to which it is linked and which
// ends. A run that has not finished by then sends no Outcome. A handle that outlives the actor
// system keeps the system's destructor waiting. Several runs may share an actor system on the wall
// clock.
//
// Threads. Requests may come from any thread and any actor of this system; actors of another system
// send them with anon_send. On the virtual clock nothing happens outside run_virtual.
#pragma once
#include <functional>
#include <memory>

#include "actors/mail/protocol.hpp"
#include "actors/run/run.hpp"

namespace grapevine {

/// The configuration of an actor system for a run: the virtual clock, or a scheduler that idles
/// cheaply.
class RunSystemConfig : public caf::actor_system_config {
 public:
  explicit RunSystemConfig(Clock clock);
};

struct Subscribe {
  caf::actor listener;  // of each actor once
};

using RunActor = caf::typed_actor<Takes<Start>, Takes<Finish>, Takes<Subscribe>,
                                  Answers<Reconfigure, std::string>, Answers<KillRank, std::string>,
                                  Answers<RestartRank, std::string>, Answers<Report, RanksReport>>;

/// A run that waits for Start. Errors: check(settings) refuses; the objective is null or has no
/// parameters; a record is of another model or method; the system has another clock than the
/// settings; a thread cannot start. `interrupts`, `is_enough` and what hooks refer to must live
/// until the Outcome, or until the RunActor has ended.
/// REQUIRES: the objective is made for settings.ranks and compute_threads(settings).
Result<RunActor> spawn_run(caf::actor_system&, const Settings&, std::shared_ptr<Objective>,
                           RunHooks = {});

/// Runs a system on the virtual clock in the calling thread: first what is ready, then one timer or
/// frame after the other, until `enough` returns true (it is called before each) or none is left.
/// Error (user): the system has no virtual clock.
Status run_virtual(caf::actor_system&, const std::function<bool()>& enough);
/// Ends a run on the virtual clock, and drops what is still due, also of the caller's actors. Call
/// it before the system ends.
Status stop_virtual(caf::actor_system&, RunActor&);

}  // namespace grapevine

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::Subscribe)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::RanksReport)
