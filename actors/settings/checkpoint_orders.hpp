// The settings of checkpoints: when they are taken, the function that writes them, and the state
// from which a run resumes. Knows no actor and no disk.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/memory/vec.hpp"

namespace grapevine {

constexpr char kNoCheckpoint[] = "no checkpoint";  // the start of a line with the reason

/// The complete state of a rank at one instant, by name, as a checkpoint stores it. Names are used
/// instead of positions, so a record stays valid when a rule changes the order of its state.
struct RankRecord {
  struct Vector {
    std::string name;
    Buffer values;
  };
  struct Number {
    std::string name;
    uint64_t bits = 0;
    bool is_real = false;  // bits of a double
  };
  /// The effect of an edge's exchanges on this end.
  struct Edge {
    int peer = 0;
    uint32_t incarnation = 0, peer_incarnation = 0;
    uint64_t exchanges = 0;  // the number of the last one
    double moved = 0;        // the sum of |the change of what gossip conserves|
    double last = 0;         // the same of the last one
  };

  int rank = 0;
  uint64_t gradients = 0;       // of the rank
  std::vector<Vector> vectors;  // "x" first
  std::vector<Number> numbers;
  Buffer statistics;  // Objective::statistics; empty: there are none
  std::vector<Edge> edges;
};
using RankRecordPtr = std::shared_ptr<const RankRecord>;

/// The next part of a checkpoint to write: its ranks, then its end.
struct CheckpointPart {
  uint64_t gradients = 0;  // of all ranks here, at the start of the checkpoint
  RankRecordPtr rank;      // null: all ranks are written
  double trained_s = 0;    // at the start of the checkpoint: seconds of the run's clock, all lives
};

/// When checkpoints are taken, and the function that writes them.
struct CheckpointOrders {
  double every_s = 0;                       // 0: not by time
  uint64_t every_steps = 0;                 // gradients of each rank; 0: not by gradients
  const std::atomic<int>* asked = nullptr;  // the number of requests for one
  using Done = std::function<void(bool is_written, std::string told)>;
  /// Called for one part at a time, and again after `done`, on any thread. If a part cannot be
  /// written, the checkpoint is abandoned. Empty: there are no checkpoints.
  std::function<void(CheckpointPart, Done)> write;
  /// Returns when no part is being written and `done` will not be called again.
  std::function<void()> stop;
};

/// The state from which a run resumes: its ranks, as an earlier life of the run recorded them.
struct Resumption {
  // By place among the ranks here; null: starts from the initial point.
  std::vector<RankRecordPtr> ranks;
  uint64_t epoch = 0;       // of the earlier life; the epochs of this one are later
  uint32_t generation = 0;  // of the run; facts of an earlier generation are void
  double trained_s = 0;     // seconds of the run's clock in all earlier lives
};

/// The gradients of all ranks together.
inline uint64_t gradients_of(const Resumption& resumption) {
  uint64_t sum = 0;
  for (const RankRecordPtr& rank : resumption.ranks)
    if (rank) sum += rank->gradients;
  return sum;
}

}  // namespace grapevine
