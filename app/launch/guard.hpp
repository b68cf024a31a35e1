// guard: runs another program and ends it together with all processes that it starts.
//
// If one kills a process, the processes that it has started live on: `bash -c`, `conda run` and a
// script's own helpers would keep training. So a guard starts the command in its own process group
// and becomes the parent of processes that the command leaves (a child subreaper). It ends all of
// them when the command ends, when the guard's parent ends for any reason, or on kEndAll. It ends
// last, with the command's status.
#pragma once
#include <string>
#include <vector>

namespace grapevine {

/// The first argument of the program that makes it a guard; the command follows.
inline constexpr char kGuard[] = "--guard";

/// The signal that asks a guard for the end of all. INT and TERM are the command's alone: they go
/// to the group.
int end_all_signal();

/// The status of the command, in its process. `command`: found by PATH.
int guard(const std::vector<std::string>& command);

}  // namespace grapevine
