// RunHooks: what a program gives a run besides its settings: receivers of reports, conditions that
// stop the run, and replacements for parts of the library.
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

/// How a node makes its workers (actors/rank/worker.hpp).
using MakeWorker = std::function<SpawnedWorker(caf::actor_system&, WorkerDependencies)>;

/// The parameters of every rank at a sample, by rank; null: the rank is gone.
using OnRanks =
    std::function<void(const RunSample&, const std::vector<std::shared_ptr<const Buffer>>&)>;

/// The work of the ranks of this process at that time.
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
  // The device of the ranks (device_share.hpp, state_sizes.hpp). Null: the host's memory. Under the
  // wall clock the objective is made for one thread more than there are lanes.
  std::shared_ptr<DeviceShare> device;
  // Of a device that is given, where the settings' link is nccl. Null: the host's memory instead.
  std::shared_ptr<const Nccl> nccl;
};

}  // namespace grapevine
