// One run, watched, from settings to a summary. Behind this header: actors and clocks.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "actors/run/run.hpp"
#include "actors/settings/checkpoint_orders.hpp"
#include "app/evaluation/test_lane.hpp"
#include "app/options/options.hpp"
#include "app/options/run_settings.hpp"
#include "app/output/summary.hpp"

namespace grapevine {

class GuestServer;

/// Told while a run goes on, one call at a time.
struct Watch {
  std::function<void(const RunSample&)> on_point;
  std::function<void(const RunSample&, const RankSample&)> on_ranks;  // the virtual clock's
  OnReport on_report;                                                 // the wall clock's
  std::function<void(const ReportedPoint&)> on_reported;              // by scripts
  std::function<void(const EpochInfo&)> on_epoch;
  std::function<void(const std::string&)> on_event;
  const std::atomic<int>* interrupts = nullptr;
  const std::atomic<bool>* interrupt_is_for_all = nullptr;  // it came to every node of the run
  CheckpointOrders checkpoints;
  std::shared_ptr<Resumption> resumption;  // the run empties it; null: begins at the start
  TestOrders tests;
  std::string sample;  // the averaged model goes on with this text at the end; empty: with none
};

/// Makes the objective for these settings: as many threads as they compute with.
Result<std::shared_ptr<Objective>> make_objective_of(const Settings&);

/// As many gradients as `epochs` passes of all ranks over their data; 0 leaves them. Error (user):
/// the objective has no data.
Status take_epochs(uint64_t epochs, const Objective&, Settings&);

/// Of all ranks together over the data; 0: the objective has none.
uint64_t gradients_per_pass(const Objective&, const Settings&);

/// REQUIRES: check(settings), an objective made by make_objective_of for them.
Summary execute(const Settings&, std::shared_ptr<Objective>, const Watch&);

/// The same for the ranks of this process among others: their counts, the mean over all ranks of
/// the run. `guests`: whose scripts compute the steps here; may be null. `on_listening` is told the
/// address. Fails where it cannot listen or meets nobody.
Result<Summary> execute_node(const Settings&, const PeerOptions&, const RunSettings&,
                             std::shared_ptr<Objective>, std::shared_ptr<GuestServer> guests,
                             const Watch&, std::function<void(const std::string&)> on_listening);

/// Tests the averaged model and every rank's own, on the objective's threads. Where the run was
/// tested before, the averaged model is judged like those.
void evaluate(const Settings&, const Watch&, Objective&, Summary&);

std::string runtime_version();  // of the actor library

}  // namespace grapevine
