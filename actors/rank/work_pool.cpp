#include "actors/rank/work_pool.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

WorkPool::WorkPool(uint64_t gradients, uint64_t before, int ranks_here)
    : wanted_(gradients), taken_(before), computes_(static_cast<size_t>(ranks_here)) {
  GV_CHECK(gradients > 0);
}

bool WorkPool::begin(int place) {
  const std::lock_guard lock(mutex_);
  uint8_t& computes = computes_[static_cast<size_t>(place)];
  if (computes == 0 && taken_ + under_way_ >= wanted_) return false;
  under_way_ += std::exchange(computes, uint8_t{1}) == 0;
  return true;
}

void WorkPool::took(int place) {
  const std::lock_guard lock(mutex_);
  under_way_ -= std::exchange(computes_[static_cast<size_t>(place)], uint8_t{0});
  ++taken_;
}

void WorkPool::gave_up(int place) {
  const std::lock_guard lock(mutex_);
  under_way_ -= std::exchange(computes_[static_cast<size_t>(place)], uint8_t{0});
}

bool WorkPool::is_complete() const {
  const std::lock_guard lock(mutex_);
  return taken_ >= wanted_;
}

double WorkPool::progress() const {
  const std::lock_guard lock(mutex_);
  return std::min(1.0, static_cast<double>(taken_) / static_cast<double>(wanted_));
}

}  // namespace grapevine
