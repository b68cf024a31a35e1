// What a run is told about its checkpoints: when they are taken, who writes them, and what it goes
// on from. Knows no actor and no disk.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/rank_record.hpp"

namespace grapevine {

constexpr char kNoCheckpoint[] = "no checkpoint";  // what a line begins with that says why

/// What is to be written next of a checkpoint: its ranks, then its end.
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
  /// Returns when nothing is being written and no `done` will be called any more.
  std::function<void()> settle;
};

/// What a run goes on from: its ranks as an earlier life of it has left them.
struct Resumption {
  std::vector<RankRecordPtr> ranks;  // by place among the ranks here; null: begins at the start
  uint64_t epoch = 0;                // of the earlier life: those of this one are later
  uint32_t generation = 0;           // of the run: what was told of an earlier one is void
};

/// Of all of them together.
inline uint64_t gradients_of(const Resumption& resumption) {
  uint64_t sum = 0;
  for (const RankRecordPtr& rank : resumption.ranks)
    if (rank) sum += rank->gradients;
  return sum;
}

}  // namespace grapevine
