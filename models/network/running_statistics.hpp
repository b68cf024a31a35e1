// RunningStatistics: the running mean and variance of batch norms, by rank, outside of the averaged
// parameter vector.
//
// Values are copied under a lock: one thread may test the average while others train.
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
  /// Whether the rank has computed a gradient, here or in an earlier process of the run.
  bool has(int rank) const;
  /// Call it after a gradient.
  void store(int rank, ConstVec now);
  /// Sets the values that an earlier process of the run left.
  void set(int rank, uint64_t gradients, ConstVec now);
  /// From now on this is the average, over the ranks of all nodes.
  void set_average(ConstVec average);

  /// The set average; otherwise the average over the ranks that have computed a gradient here, or
  /// the start if no rank has.
  Buffer average() const;
  /// The largest number of gradients of a rank; counted only if there are statistics.
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
