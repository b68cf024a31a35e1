// simulate: a run on the virtual clock, driven event by event on the calling thread.
#pragma once
#include "actors/run/prepared_run.hpp"

namespace grapevine {

/// Ends early after an exception.
RunResult simulate(PreparedRun);

}  // namespace grapevine
