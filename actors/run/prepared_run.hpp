// PreparedRun: what the ranks of a process need, checked and guarded.
#pragma once
#include <memory>

#include "actors/run/gpu.hpp"
#include "actors/run/guarded.hpp"
#include "actors/run/spawn_run.hpp"

namespace grapevine {

struct PreparedRun {
  Settings settings;
  std::shared_ptr<Objective> objective;  // guarded
  RunHooks hooks;                        // guarded
  std::shared_ptr<Thrown> thrown;
  Gpu gpu;  // outlives the actors
};

/// Errors: as run.
Result<PreparedRun> prepare(const Settings&, const std::shared_ptr<Objective>&, RunHooks);

/// The same for settings that are checked.
Result<PreparedRun> prepare_checked(const Settings&, const std::shared_ptr<Objective>&, RunHooks);

/// A run that waits for Start. Throws std::system_error if a thread cannot start.
/// REQUIRES: the system has the clock of the settings.
RunActor spawn_prepared(caf::actor_system&, PreparedRun);

}  // namespace grapevine
