// RunningStatistics: what batch norms remember, rank by rank, outside of the vector that is
// averaged.
//
// Copies under a lock: one thread may test the average while others train.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/base/mutex.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

class RunningStatistics {
 public:
  RunningStatistics(int ranks, const Buffer& start);

  size_t size() const { return size_; }

  /// rank -1: the average.
  void load(int rank, Vec out) const;
  /// Whether the rank has computed a gradient, here or in an earlier life of the run.
  bool has(int rank) const;
  /// After a gradient.
  void store(int rank, ConstVec now);
  /// As an earlier life of the run has left them.
  void set(int rank, uint64_t gradients, ConstVec now);
  /// From now on the average is this one, over the ranks of all nodes.
  void set_average(ConstVec average);

  /// The set values; otherwise the average over the ranks that have computed a gradient here, or
  /// the start if none has.
  Buffer average() const;
  /// Gradients of the rank that has most; counted where there are statistics.
  int64_t most_gradients() const;

 private:
  void average_locked(Vec out) const GV_REQUIRES(mutex_);

  const size_t size_;
  const DType dtype_;
  mutable Mutex mutex_;
  std::vector<Buffer> of_rank_ GV_GUARDED_BY(mutex_);
  Buffer average_ GV_GUARDED_BY(mutex_);                  // over all nodes; null: not set
  std::vector<int64_t> gradients_ GV_GUARDED_BY(mutex_);  // by rank
};

}  // namespace grapevine
