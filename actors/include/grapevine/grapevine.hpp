// Grapevine, as a library: settings, objective, run, node, hooks, results. `auto result =
// grapevine::run(settings);` is a whole program.
//
//   Settings       everything that a run is told; check(settings) says what cannot be
//   Objective      what is trained: make_objective(settings), or one of your own
//   run            all ranks in this process, under the wall clock or the virtual one
//   run_node       the ranks of this process, with those of others
//   RunHooks       a sink of samples, epochs and events; interrupts; workers; checkpoints, and what
//                  a run goes on from
//   RunResult      the outcome: every rank's parameters, and what was counted
//   Result<T>      what every call answers: a value, or an Error of one line
//
// Nothing here shows the actor framework or LibTorch. <grapevine/actors.hpp> is for actors,
// messages and workers of your own.
#pragma once
#include "actors/run/run.hpp"
#include "actors/run/run_node.hpp"
