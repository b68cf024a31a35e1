// run: one run from settings to outcome, in this process, under the clock that the settings name.
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
  std::shared_ptr<Objective> objective;  // that was trained
  // The virtual clock's, else zero.
  uint64_t events = 0;           // firings of the clock: timers and frames
  double events_per_second = 0;  // of real time, set-up excluded
  uint64_t event_log_hash = 0;
  double consensus_norm_start = 0, consensus_norm_end = 0;  // |pi x|
  bool reached_target = false;
};

/// The objective that the settings ask for, made for their ranks, seed and compute threads.
Result<std::shared_ptr<Objective>> make_objective(const Settings&);

/// Runs to the end and returns it. An outcome whose `failure` is set ended early, with what there
/// was by then. Errors: what check(settings) refuses; an objective that is null or has no
/// parameters; records of ranks of another model or method; what the objective or a hook threw, by
/// its text.
/// REQUIRES: the objective is made for settings.ranks and compute_threads(settings).
Result<RunResult> run(const Settings&, std::shared_ptr<Objective>, RunHooks = {});

/// The same with make_objective(settings).
Result<RunResult> run(const Settings&, RunHooks = {});

/// How many threads compute gradients under these settings; what the objective must be made with.
int compute_threads(const Settings&);

/// The parameters of an outcome, without ranks that are apart from all their neighbours; if all
/// ranks are apart, all parameters.
std::vector<RankParameters> ranks_in_mean(const Outcome&);

/// The mean of the parameters over these, in the layout's dtype. REQUIRES: there are some.
Buffer mean_parameters(const Outcome&);

/// Mean over ranks of |x_i - mean|^2. REQUIRES: as above.
double consensus_distance(const Outcome&);

/// FNV-1a over all ranks' parameters: equal for equal bits.
uint64_t parameter_hash(const Outcome&);

}  // namespace grapevine
