// The dependencies of a state actor.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "actors/algorithms/rule.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/device/device_share.hpp"
#include "actors/state/ring_parts.hpp"
#include "kernels/base/fork_join.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "models/objective.hpp"

namespace grapevine {

/// Capacities, for all ranks of a state actor together.
struct StatePools {
  size_t snapshots = 0;
  size_t messages = 0;  // messages to other ranks
  RingParts parts;      // of the ring of all ranks
  size_t ranks = 0;     // here
};

struct StateDependencies {
  RunClock clock;
  std::shared_ptr<Objective> objective;
  std::string method;
  RuleSettings rule = {};
  InnerSteps inner = {};
  uint64_t seed = 1;
  std::shared_ptr<ForkJoin> pool = {};  // splits passes over large vectors; may be empty
  // It holds the ranks. Null: they are in the host's memory.
  std::shared_ptr<DeviceShare> device = {};
  int ranks = 1;   // of the objective
  int groups = 1;  // state actors of the node: this one serves every groups-th rank
  StatePools pools = {};
  SnapshotPool::Memory memory = SnapshotPool::Memory::own;  // of messages and chunks
  bool measures_distance = false;  // measure the distance across an edge from time to time
  bool recorded = false;           // checkpoints record its ranks
  bool guarded = true;             // false: a finite message is always taken whole, for comparison
  bool audits = false;             // audit the conserved sum at every gradient: two more passes
  // Called when a rule throws (the rank then counts as gone) and when a device is lost. Empty: no
  // rule throws.
  std::function<void(const std::string& where, const std::string& text)> on_throw = {};
};

}  // namespace grapevine
