// One run, from settings to a summary. This header hides actors and clocks.
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

/// Receivers of events during a run; one call at a time.
struct Watch {
  std::function<void(const RunSample&)> on_point;
  std::function<void(const RunSample&, const RankSample&)> on_ranks;  // on the virtual clock
  OnReport on_report;                                                 // on the wall clock
  std::function<void(const ReportedPoint&)> on_reported;              // of scripts
  std::function<void(const EpochInfo&)> on_epoch;
  std::function<void(const std::string&)> on_event;
  const std::atomic<int>* interrupts = nullptr;
  const std::atomic<bool>* interrupt_is_for_all = nullptr;  // every node of the run got the signal
  CheckpointOrders checkpoints;
  // The run empties it; null: starts from the initial point.
  std::shared_ptr<Resumption> resumption;
  TestOrders tests;
  std::string sample;  // the averaged model continues this text at the end; empty: none
};

/// Makes the objective for these settings, with their number of threads.
Result<std::shared_ptr<Objective>> make_objective_of(const Settings&);

/// Whether the samples are of a file of the user's own. The targets in it may choose the task, so
/// each command says which task it is.
bool is_of_own_data(const Settings&);

/// Sets the gradients to `epochs` passes of all ranks over their data; 0 changes nothing. Error
/// (user): the objective has no data.
Status take_epochs(uint64_t epochs, const Objective&, Settings&);

/// Of all ranks together; 0: the objective has no data.
uint64_t gradients_per_pass(const Objective&, const Settings&);

/// REQUIRES: check(settings) accepts; the objective is from make_objective_of(settings).
Summary execute(const Settings&, std::shared_ptr<Objective>, const Watch&);

/// The same for the ranks of this process in a run of several: their counts, and the mean over all
/// ranks of the run. `guests`: its scripts compute the steps here; may be null. `on_listening` gets
/// the address. Error: it cannot listen, or reaches no other node.
Result<Summary> execute_node(const Settings&, const PeerOptions&, const RunSettings&,
                             std::shared_ptr<Objective>, std::shared_ptr<GuestServer> guests,
                             const Watch&, std::function<void(const std::string&)> on_listening);

/// Tests the averaged model and each rank's own model, on the objective's threads. If there were
/// tests during the run, the averaged model is scored like those.
void evaluate(const Settings&, const Watch&, Objective&, Summary&);

std::string runtime_version();  // of the actor library

}  // namespace grapevine
