// simulate: a run on the virtual clock, driven event by event on the calling thread.
#pragma once
#include "actors/run/guarded.hpp"

namespace grapevine {

/// Ends early after an exception.
RunResult simulate(const Settings&, std::shared_ptr<Objective>, RunHooks, const Thrown&);

}  // namespace grapevine
