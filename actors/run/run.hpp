// run: one run in this process, from settings to outcome, under the clock that the settings name.
//
// The actors are the same under both clocks. This header does not show them; spawn_run.hpp starts
// them in the caller's actor system.
#pragma once
#include <memory>

#include "actors/settings/run_hooks.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

struct RunResult {
  Outcome outcome;
  std::shared_ptr<Objective> objective;  // the one that was trained
  // Of the virtual clock; zero under the wall clock.
  uint64_t events = 0;           // timers and frames that fired
  double events_per_second = 0;  // per second of real time, without the set-up
  uint64_t event_log_hash = 0;
  double consensus_norm_start = 0, consensus_norm_end = 0;  // |pi x|
  bool reached_target = false;
};

/// The objective that the settings ask for, made for their ranks, seed and compute threads.
Result<std::shared_ptr<Objective>> make_objective(const Settings&);

/// Runs to the end. If the run ended early, `failure` is set in its outcome, which has the results
/// up to then. Errors: check(settings) refuses; the objective is null or has no parameters; a
/// record is of another model or method; the objective or a hook threw (with the text of the
/// exception); a thread cannot start; memory runs out at the start.
/// REQUIRES: the objective is made for settings.ranks and compute_threads(settings).
Result<RunResult> run(const Settings&, std::shared_ptr<Objective>, RunHooks = {});

/// The same with make_objective(settings).
Result<RunResult> run(const Settings&, RunHooks = {});

/// The number of threads that compute gradients. The objective must be made with it.
int compute_threads(const Settings&);

/// The parameters of an outcome without the ranks that are apart from all their neighbours. If all
/// ranks are apart: all parameters.
std::vector<RankParameters> ranks_in_mean(const Outcome&);

/// The mean of ranks_in_mean, in the layout's dtype. REQUIRES: the outcome has parameters.
Buffer mean_parameters(const Outcome&);

/// Mean over ranks of |x_i - mean|^2. REQUIRES: as above.
double consensus_distance(const Outcome&);

/// FNV-1a over all ranks' parameters: equal for equal bits.
uint64_t parameter_hash(const Outcome&);

}  // namespace grapevine
