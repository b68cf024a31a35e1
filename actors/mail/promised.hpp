// Promised: a value that an actor passes to a waiting thread. Any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <optional>
#include <utility>

#include "kernels/base/mutex.hpp"

namespace grapevine {

template <class T>
class Promised {
 public:
  void keep(T value) {
    const Lock lock(mutex_);
    value_ = std::move(value);
    there_.notify_all();
  }

  /// Returns the value once; no value after `limit`.
  std::optional<T> wait(std::chrono::milliseconds limit) {
    Lock lock(mutex_);
    there_.wait_for(lock, limit, [this]() GV_REQUIRES(mutex_) { return value_.has_value(); });
    return std::exchange(value_, std::nullopt);
  }

 private:
  Mutex mutex_;
  std::condition_variable there_;
  std::optional<T> value_ GV_GUARDED_BY(mutex_);
};

}  // namespace grapevine
