// WorkPool: what is left of the work of a run. The work is N gradients, whichever rank takes them:
// a fast rank takes more, and what a rank that is gone or stands still has not done the others do.
//
// A rank begins a gradient while fewer than N have been taken or are under way. The others wait,
// and begin again where one that was under way is given up. So N is never missed, and exceeded only
// by what was given up and is taken all the same.
//
// The ranks of one process share a pool; of a run of several processes each has its ranks' part of
// N. Any thread may call.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

namespace grapevine {

class WorkPool {
 public:
  /// `before`: gradients of an earlier life of the ranks here. REQUIRES: gradients > 0.
  WorkPool(uint64_t gradients, uint64_t before, int ranks_here);

  /// One more gradient of the rank at this place begins. False: all have begun; ask again after a
  /// while. A rank has one under way at a time.
  bool begin(int place);
  void took(int place);  // its step is taken
  /// It is not, or nobody knows when: what was under way, if anything, is to be begun again.
  void gave_up(int place);

  bool is_complete() const;
  double progress() const;  // 0 to 1

 private:
  mutable std::mutex mutex_;
  const uint64_t wanted_;
  uint64_t taken_, under_way_ = 0;
  std::vector<uint8_t> computes_;  // by place: 1, it has one under way
};

}  // namespace grapevine
