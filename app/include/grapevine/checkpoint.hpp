// Runs that are saved while they go on, go on where they were, or begin at a model: what the
// program's --out, --checkpoint-every, --resume and --init do, in the same words. The folders are
// the same, too: what the program has saved goes on here, and a model that was saved here is one
// for --init.
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

/// run(settings, objective, hooks), saved. What a resumption should be told, and alarms of the
/// disk, go to the sink's on_event, a line each; a disk that fails ends no run. Errors: as run;
/// text that is no `every`; nothing to go on from and why; a checkpoint of another objective,
/// method or optimizer; a folder that holds the checkpoints of another run, or that another process
/// works in.
Result<RunResult> run_saved(const Settings&, std::shared_ptr<Objective>, const Saving&,
                            RunHooks = {});

/// The same with make_objective(settings).
Result<RunResult> run_saved(const Settings&, const Saving&, RunHooks = {});

/// The same for the ranks of this process among others: each process has a folder of its own.
Result<NodeResult> run_node_saved(const Settings&, const NodeSettings&, std::shared_ptr<Objective>,
                                  const Saving&, NodeHooks = {});

/// Whether a run's folder holds a checkpoint to go on from.
bool has_checkpoint(const std::string& run);

/// The objective with all of its `ranks` begun at `init`: a safetensors file, a state dict of
/// torch.save, a run's folder (its model, or, where it has none yet, the mean of its newest
/// checkpoint), or a checkpoint (the mean of its ranks). Says on standard error, a line each, which
/// tensors do not fit and which are not used. Errors (user): there is no such thing, or some do not
/// fit.
Result<std::shared_ptr<Objective>> warm_start(const std::string& init, int ranks,
                                              std::shared_ptr<Objective>);

}  // namespace grapevine
