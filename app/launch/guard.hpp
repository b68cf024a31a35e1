// guard: another program, and whatever it starts, which end together.
//
// Killing a process leaves those that it has started: `bash -c`, `conda run` and a script's own
// helpers would train on. A guard stands between: it starts the command in its own process group,
// is the parent of whatever the command leaves behind (a child subreaper), and ends all of it when
// the command ends, when the guard's parent ends, however that is, or when it is asked to by
// kEndAll. It dies last, with the command's status.
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
