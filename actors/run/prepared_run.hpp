// PreparedRun: what a run of one process needs, checked and guarded.
#pragma once
#include <memory>

#include "actors/run/gpu.hpp"
#include "actors/run/guarded.hpp"
#include "actors/run/run.hpp"

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

}  // namespace grapevine
