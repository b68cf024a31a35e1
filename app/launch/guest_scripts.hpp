// grapevine launch --guests N -- COMMAND: a node in this process, and N scripts that compute its
// ranks' steps. Each script is the same command with GRAPEVINE_NODE and GRAPEVINE_SEAT set. Their
// output is shown as it comes, after the numbers of their ranks.
//
// A script that ends before its share is done is started again, as often as --restarts says. After
// that its seat is given up, and the other ranks take the remaining steps.
#pragma once
#include "app/options/options.hpp"

namespace grapevine {

/// Ends when the run and all scripts have ended. Ctrl+C drains the run: scripts end when they learn
/// of it. Those that do not end get INT, a minute later TERM, and then KILL. Status 1 if a script
/// failed, or ended before its share was done.
Result<int> launch_guests(Options);

}  // namespace grapevine
