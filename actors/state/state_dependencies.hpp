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

/// At most, of all ranks of a state actor together.
struct StatePools {
  size_t snapshots = 0;
  size_t messages = 0;  // what goes to other ranks
  RingParts parts;      // of the ring of all
  size_t ranks = 0;     // here
};

struct StateDependencies {
  RunClock clock;
  std::shared_ptr<Objective> objective;
  std::string method;
  RuleSettings rule = {};
  InnerSteps inner = {};
  uint64_t seed = 1;
  std::shared_ptr<ForkJoin> pool = {};       // splits passes over large vectors; may be empty
  std::shared_ptr<DeviceShare> device = {};  // where the ranks live; null: in the host's memory
  int ranks = 1;                             // of the objective
  int groups = 1;  // state actors of the node: this one serves every groups-th rank
  StatePools pools = {};
  SnapshotPool::Memory memory = SnapshotPool::Memory::own;  // of messages and chunks
  bool measures_distance = false;  // across an edge, now and then: how far apart are its ends?
  bool recorded = false;           // its ranks will be, for checkpoints
  bool guarded = true;             // false: whatever is finite is taken whole, to compare with
  bool audits = false;  // follow what must be conserved through every gradient: two passes more
  // Told which rank's rule has thrown what, and of a device that is lost; such a rank is as one
  // that has gone. Empty: none throws.
  std::function<void(const std::string& where, const std::string& text)> on_throw = {};
};

}  // namespace grapevine
