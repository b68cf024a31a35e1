// Grapevine as a library: settings, objective, run, node, hooks, results. `auto result =
// grapevine::run(settings);` is a whole program.
//
//   Settings       the settings of a run; check(settings) returns the first error in them
//   Objective      what is trained: make_objective(settings), or your own
//   run            all ranks in this process, under the wall clock or the virtual clock
//   run_node       the ranks of this process, in a run of several processes
//   RunHooks       a sink of samples, epochs and events; interrupts; workers; checkpoints, and the
//                  records from which a run resumes
//   RunResult      the outcome: every rank's parameters, and the counters
//   Result<T>      the return type of every call: a value, or an Error of one line
//
// This header includes neither the actor framework nor LibTorch. <grapevine/actors.hpp> is for your
// own actors, messages and workers.
#pragma once
#include "actors/run/run.hpp"
#include "actors/run/run_node.hpp"
