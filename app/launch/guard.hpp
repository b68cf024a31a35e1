// guard: runs another program and ends it together with all processes that it starts.
//
// When a process is killed, the processes that it started continue: `bash -c`, `conda run` and a
// script's own helpers would keep training. So a guard starts the command in its own process group
// and becomes the parent of processes that the command leaves (a child subreaper). It ends all of
// them when the command ends, when the guard's parent ends for any reason, or on end_all_signal().
// It ends last, with the command's status.
#pragma once
#include <string>
#include <vector>

namespace grapevine {

/// The first argument of the program that makes it a guard; the command follows.
inline constexpr char kGuard[] = "--guard";

/// The signal that tells a guard to end all. INT and TERM are for the command alone: they go to the
/// group. HUP, USR1 and USR2 do not end a guard.
int end_all_signal();

/// Runs the command in its own process and returns its status. `command` is searched in PATH.
int guard(const std::vector<std::string>& command);

}  // namespace grapevine
