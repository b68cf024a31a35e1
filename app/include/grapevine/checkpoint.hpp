// Runs that are saved, that resume, or that start at a given model, as with the program's --out,
// --checkpoint-every, --resume and --init. The folders are those of the program: this library
// resumes what the program has saved, and --init accepts a model that was saved here.
#pragma once
#include <grapevine/grapevine.hpp>

namespace grapevine {

struct Saving {
  std::string out = {};  // the run's folder: it is saved in OUT/checkpoints; empty: nowhere
  std::string checkpoint_every = "300s";  // or "1000steps" of each rank; "0": when asked alone
  // A run's folder, whose newest whole checkpoint is meant, or one checkpoint. Without `out` the
  // run is saved in that folder again.
  std::string resume = {};
  std::string init = {};  // as warm_start has it
  // How often somebody has asked for a checkpoint so far: counted up in any thread, it is taken at
  // once. On the virtual clock, where nothing looks, not.
  const std::atomic<int>* checkpoint_requests = nullptr;
  // Each that is whole: its folder. One call at a time, and none after the run.
  std::function<void(const std::string& path)> on_checkpoint = {};
};

/// run(settings, objective, hooks), saved. The sink's on_event gets messages about the resumption
/// and alarms of the disk, a line each. A disk that fails does not end the run. Errors: as run; a
/// text that is no `every`; nothing to resume from, and why; a checkpoint of another objective,
/// method or optimizer; a folder that holds the checkpoints of another run, or that another process
/// uses.
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
/// yet), or a checkpoint (the mean of its ranks). Prints on standard error, a line each, the
/// tensors that do not fit and those that are not used. Errors (user): `init` does not exist, or
/// some tensors do not fit.
Result<std::shared_ptr<Objective>> warm_start(const std::string& init, int ranks,
                                              std::shared_ptr<Objective>);

}  // namespace grapevine
