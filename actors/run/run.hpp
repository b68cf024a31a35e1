// run: one run from settings to outcome, in this process, under the clock that the settings name.
//
// The actors are the same under both clocks, and none is seen here: whoever wants them in an actor
// system of her own has spawn_run.hpp.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/samples.hpp"
#include "actors/settings/settings.hpp"

namespace caf {
class actor_system;
}

namespace grapevine {

class DeviceShare;    // actors/device/device_share.hpp
class SpectrumCache;  // topologies/spectrum_cache.hpp
struct Nccl;          // kernels/gpu/nccl.hpp
struct SpawnedWorker;
struct WorkerDependencies;

/// How a node makes its workers (actors/rank/worker.hpp).
using MakeWorker = std::function<SpawnedWorker(caf::actor_system&, WorkerDependencies)>;

/// What every rank holds at a sample, by rank; null: it is gone.
using OnRanks =
    std::function<void(const RunSample&, const std::vector<std::shared_ptr<const Buffer>>&)>;

/// What the ranks of this process have done by then.
struct RanksReport {
  double at_s = 0;
  std::vector<WorkerReport> workers;
  std::vector<CommunicatorReport> communicators;
};
using OnReport = std::function<void(const RanksReport&)>;

struct RunHooks {
  Sink sink;
  OnRanks on_ranks;                              // virtual clock only; after the sink's on_sample
  OnReport on_report;                            // wall clock only; each sample_s, at least 1 s
  MakeWorker make_worker;                        // empty: spawn_worker
  const std::atomic<int>* interrupts = nullptr;  // Ctrl+C so far: at 1 the run drains and saves
  const std::atomic<bool>* is_enough = nullptr;  // true: the run ends as it does at until_s
  CheckpointOrders checkpoints;                  // none without `write`
  Resumption resumption;                         // empty: begins at the start
  // Told what a method's rule has thrown: run and run_node set it, and end with that. Empty: it
  // goes on into the actor system.
  std::function<void(const std::string& where, const std::string& text)> on_throw;
  // Of graphs and their rates; runs in one process may share it. Null: the run's own.
  std::shared_ptr<SpectrumCache> spectra;
  // Where the ranks live and compute (device_share.hpp, state_sizes.hpp). Null: in the host's
  // memory. Under the wall clock the objective is made for a thread more than there are lanes.
  std::shared_ptr<DeviceShare> device;
  // Of a device that is given, where the settings' link is nccl. Null: the host's memory instead.
  std::shared_ptr<const Nccl> nccl;
};

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

/// sum / n in `dtype`; the sum is fp64.
Buffer mean_of(ConstVec sum, double n, DType dtype);

/// The mean of the parameters over ranks, in the layout's dtype. REQUIRES: there are some.
Buffer mean_parameters(const Outcome&);

/// Mean over ranks of |x_i - mean|^2. REQUIRES: as above.
double consensus_distance(const Outcome&);

/// FNV-1a over all ranks' parameters: equal for equal bits.
uint64_t parameter_hash(const Outcome&);

}  // namespace grapevine
