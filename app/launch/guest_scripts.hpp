// grapevine launch --guests N -- COMMAND: a node in this process, and N scripts that compute its
// ranks' steps, each the same command with GRAPEVINE_NODE and GRAPEVINE_SEAT set. What they write
// is passed on as it comes, behind the numbers of their ranks.
//
// A script that ends before its share is done is started again, as often as --restarts says; then
// its seat is given up, and the other ranks do the rest.
#pragma once
#include "app/options/options.hpp"

namespace grapevine {

/// Ends when the run has, and all scripts. Ctrl+C drains the run: scripts end as they hear of it,
/// and those that do not are sent INT, and a minute later TERM, and KILL. Status 1 where a script
/// ended badly, or before its share was done.
Result<int> launch_guests(Options);

}  // namespace grapevine
