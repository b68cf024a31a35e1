// WorkPool: how much of the work of a run is done. The work is N gradients, whichever rank takes
// them: a fast rank takes more, and what a rank that is gone or stands still has not done the
// others do. Nobody waits for anybody: ranks begin gradients until N have been taken, so at most
// one a rank is taken beyond.
//
// The ranks of one process share a pool; of a run of several processes each has its ranks' part of
// N. Any thread may call.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace grapevine {

class WorkPool {
 public:
  /// `before`: gradients of an earlier life of the ranks here. REQUIRES: gradients > 0.
  WorkPool(uint64_t gradients, uint64_t before) : wanted_(gradients), taken_(before) {}

  void took() { taken_.fetch_add(1, std::memory_order_relaxed); }
  bool is_complete() const { return taken() >= wanted_; }
  double progress() const {  // 0 to 1
    return std::min(1.0, static_cast<double>(taken()) / static_cast<double>(wanted_));
  }

 private:
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

  const uint64_t wanted_;
  std::atomic<uint64_t> taken_;
};

}  // namespace grapevine
