// The settings of checkpoints: when they are taken, who writes them, and the state from which a run
// resumes. Knows no actor and no disk.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/memory/vec.hpp"

namespace grapevine {

constexpr char kNoCheckpoint[] = "no checkpoint";  // what a line begins with that says why

/// The complete state of a rank at one instant, by name, as a checkpoint stores it. Names are used
/// instead of positions, so a record stays valid when a rule lists its state in another order.
struct RankRecord {
  struct Vector {
    std::string name;
    Buffer values;
  };
  struct Number {
    std::string name;
    uint64_t bits = 0;
    bool is_real = false;  // a double's bits
  };
  /// The effect that the exchanges of an edge had on this end.
  struct Edge {
    int peer = 0;
    uint32_t incarnation = 0, peer_incarnation = 0;
    uint64_t exchanges = 0;  // the number of the last one
    double moved = 0;        // |the change of what gossip conserves|, summed over them
    double last = 0;         // of the last one
  };

  int rank = 0;
  uint64_t gradients = 0;       // that it has taken
  std::vector<Vector> vectors;  // "x" first
  std::vector<Number> numbers;
  Buffer statistics;  // Objective::statistics; empty where there are none
  std::vector<Edge> edges;
};
using RankRecordPtr = std::shared_ptr<const RankRecord>;

/// The next part of a checkpoint to write: its ranks, then its end.
struct CheckpointPart {
  uint64_t gradients = 0;  // of all ranks here, when it began
  RankRecordPtr rank;      // null: all have been written
};

/// When checkpoints are taken, and who writes them.
struct CheckpointOrders {
  double every_s = 0;                       // 0: not by time
  uint64_t every_steps = 0;                 // gradients of each rank; 0: not by them
  const std::atomic<int>* asked = nullptr;  // how often somebody has asked for one
  using Done = std::function<void(bool is_written, std::string told)>;
  /// Told one part at a time, the next once `done` was called, in any thread. A checkpoint of which
  /// a part is not written ends there. Empty: there are no checkpoints.
  std::function<void(CheckpointPart, Done)> write;
  /// Returns when nothing is being written and no `done` will be called.
  std::function<void()> stop;
};

/// The state from which a run resumes: its ranks, as an earlier life of the run recorded them.
struct Resumption {
  std::vector<RankRecordPtr> ranks;  // by place among the ranks here; null: begins at the start
  uint64_t epoch = 0;                // of the earlier life: those of this one are later
  uint32_t generation = 0;           // of the run: what was told of an earlier one is void
};

/// The gradients of all ranks together.
inline uint64_t gradients_of(const Resumption& resumption) {
  uint64_t sum = 0;
  for (const RankRecordPtr& rank : resumption.ranks)
    if (rank) sum += rank->gradients;
  return sum;
}

}  // namespace grapevine
