// simulate: a run on the virtual clock, driven event by event on the calling thread.
#pragma once
#include "actors/run/run.hpp"

namespace grapevine {

RunResult simulate(const Settings&, std::shared_ptr<Objective>, RunHooks);

}  // namespace grapevine
