// Runs that are saved, that resume, or that start at a given model, as with the program's --out,
// --checkpoint-every, --resume and --init. The folders are those of the program: this library
// resumes runs that the program has saved, and --init accepts a model that was saved here.
#pragma once
#include <grapevine/grapevine.hpp>

namespace grapevine {

struct Saving {
  std::string out = {};  // the run's folder, with OUT/checkpoints; empty: it is not saved
  std::string checkpoint_every = "300s";  // or "1000steps" of each rank; "0": only on request
  // A run's folder (its newest complete checkpoint is used) or one checkpoint. Without `out` the
  // run is saved in that folder again.
  std::string resume = {};
  std::string init = {};  // as in warm_start
  // The number of requests for a checkpoint so far. Any thread may increment it; the checkpoint is
  // taken at once. Without effect on the virtual clock.
  const std::atomic<int>* checkpoint_requests = nullptr;
  // Called with the folder of each complete checkpoint: one call at a time, and none after the run.
  std::function<void(const std::string& path)> on_checkpoint = {};
};

/// run(settings, objective, hooks), saved. The sink's on_event gets messages about the resumption
/// and alarms of the disk, a line each. A disk that fails does not end the run. Errors: as run; an
/// invalid `checkpoint_every`; nothing to resume from (with the reason); a checkpoint of another
/// objective, method or optimizer; a folder with the checkpoints of another run, or one that
/// another process uses.
Result<RunResult> run_saved(const Settings&, std::shared_ptr<Objective>, const Saving&,
                            RunHooks = {});

/// The same with make_objective(settings).
Result<RunResult> run_saved(const Settings&, const Saving&, RunHooks = {});

/// The same for the ranks of this process in a run of several processes. Each process has its own
/// folder.
Result<NodeResult> run_node_saved(const Settings&, const NodeSettings&, std::shared_ptr<Objective>,
                                  const Saving&, NodeHooks = {});

/// Whether the folder of a run holds a checkpoint.
bool has_checkpoint(const std::string& run);

/// The objective, with all of its `ranks` starting at `init`: a safetensors file, a state dict of
/// torch.save, a run's folder (its model, or the mean of its newest checkpoint if it has no model
/// yet), or a checkpoint (the mean of its ranks). Prints the tensors that do not fit and those that
/// are not used on standard error, a line each. Errors (user): `init` does not exist, or some
/// tensors do not fit.
Result<std::shared_ptr<Objective>> warm_start(const std::string& init, int ranks,
                                              std::shared_ptr<Objective>);

}  // namespace grapevine
