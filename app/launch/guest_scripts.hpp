// grapevine launch --guests N -- COMMAND: a node in this process, and N scripts that compute its
// ranks' steps. Each script is the same command with GRAPEVINE_NODE and GRAPEVINE_SEAT set. Their
// output is passed on at once; each line starts with the number of the rank.
//
// A script that ends before its last step is started again, --restarts times. After that its seat
// is given up, and the other ranks take the remaining steps.
#pragma once
#include "app/options/options.hpp"

namespace grapevine {

/// Ends when the run and all scripts have ended. Ctrl+C drains the run: scripts end when they learn
/// of it. The others get INT, a minute later TERM, and then KILL. Status 1 if a script failed, or
/// ended before its last step.
Result<int> launch_guests(Options);

}  // namespace grapevine
