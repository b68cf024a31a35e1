// grapevine launch --guests N -- COMMAND: a node in this process, and N scripts that compute its
// ranks' steps, each the same command with GRAPEVINE_NODE set. What they say is passed on line by
// line, behind their numbers.
#pragma once
#include "app/options/options.hpp"

namespace grapevine {

/// Ends when the run has. Ctrl+C drains the run, and the scripts end as they hear of it. Status 1
/// where a script ended badly.
Result<int> launch_guests(Options);

}  // namespace grapevine
