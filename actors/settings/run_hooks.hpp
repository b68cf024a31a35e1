// RunHooks: what a program gives a run besides its settings: receivers of reports, conditions that
// stop the run, and replacements for parts of the library.
//
// Sink (samples.hpp) states which thread calls a function, and what an exception does; the same
// holds for on_ranks, on_report and make_worker.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/samples.hpp"

namespace caf {
class actor_system;
}

namespace grapevine {

class DeviceShare;    // actors/device/device_share.hpp
class SpectrumCache;  // topologies/spectrum_cache.hpp
struct Nccl;          // kernels/gpu/nccl.hpp
struct SpawnedWorker;
struct WorkerDependencies;

/// Makes the workers of a node (actors/rank/worker.hpp).
using MakeWorker = std::function<SpawnedWorker(caf::actor_system&, WorkerDependencies)>;

/// The parameters of every rank at a sample, by rank; null: the rank is gone.
using OnRanks =
    std::function<void(const RunSample&, const std::vector<std::shared_ptr<const Buffer>>&)>;

/// The work of the ranks of this process so far.
struct RanksReport {
  double at_s = 0;
  std::vector<WorkerReport> workers;
  std::vector<CommunicatorReport> communicators;
};
using OnReport = std::function<void(const RanksReport&)>;

struct RunHooks {
  Sink sink;
  // Virtual clock only; called after the sink's on_sample.
  OnRanks on_ranks;
  // Wall clock only; every sample_s, at least 1 s apart.
  OnReport on_report;
  // Empty: spawn_worker. Called for each rank when the run begins, and again for a rank that
  // returns or whose worker has failed.
  MakeWorker make_worker;
  // The number of Ctrl+C; from 1 on the run drains and saves.
  const std::atomic<int>* interrupts = nullptr;
  const std::atomic<bool>* is_enough = nullptr;  // true: the run ends as at until_s
  CheckpointOrders checkpoints;                  // without `write`: there are none
  Resumption resumption;                         // empty: the run starts from the initial point
  // Called when a method's rule throws. run and run_node set it, and end with this error. Empty:
  // the exception reaches the actor system.
  std::function<void(const std::string& where, const std::string& text)> on_throw;
  // Of graphs and their rates. Several runs of a process may share it. Null: the run makes one.
  std::shared_ptr<SpectrumCache> spectra;
  // The device of the ranks (device_share.hpp, state_sizes.hpp). Null: the host's memory. Under the
  // wall clock the objective is made for one thread more than there are lanes.
  std::shared_ptr<DeviceShare> device;
  // For a given device, if the settings' link is nccl. Null: payloads go through the host's memory.
  std::shared_ptr<const Nccl> nccl;
};

}  // namespace grapevine
