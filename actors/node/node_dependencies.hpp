// NodeDependencies: what a node and its parts are made of.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/mail/mailboxes.hpp"
#include "actors/settings/counters.hpp"
#include "actors/settings/rank_ledger.hpp"
#include "actors/settings/run_hooks.hpp"
#include "actors/settings/samples.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

class Compute;   // actors/compute/compute.hpp
class WorkPool;  // actors/rank/work_pool.hpp

struct NodeDependencies {
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  RuleSettings rule;  // of the ranks
  int vectors = 1;    // CollectiveRule::vectors
  std::shared_ptr<Objective> objective;
  std::shared_ptr<Mailboxes> mailboxes;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Compute> compute;
  std::shared_ptr<Counters> counters;
  std::shared_ptr<Ledgers> ledgers;  // by place; empty: no rank has a worker
  std::vector<StateActor> states;    // rank r is served by states[r mod size]
  TopologyManagerActor manager;
  MembershipActor membership;
  MakeWorker make_worker;
  std::shared_ptr<WorkPool> pool;  // null: each rank takes an equal number of gradients
  double gradient_s = 1;
  std::vector<RankRecordPtr> records;  // by place, from an earlier life; null: none
  double trained_s = 0;                // in earlier lives
  Sink sink;
  OnReport on_report;                 // may be empty
  std::function<void(Outcome)> done;  // called once

  const StateActor& state_of(int rank) const {
    return states[static_cast<size_t>(rank) % states.size()];
  }
  /// Null: no rank has a worker.
  RankLedger* ledger_of(size_t place) const {
    return ledgers->empty() ? nullptr : &(*ledgers)[place];
  }
  /// The time between two steps that a rank hands to its rule.
  double step_s() const { return gradient_s * static_cast<double>(settings->inner_steps); }
  void say(const std::string& line) const {
    if (sink.on_event) sink.on_event(line);
  }
};

}  // namespace grapevine
