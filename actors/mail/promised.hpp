// Promised: one value that an actor leaves for the thread that waits. Any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace grapevine {

template <class T>
class Promised {
 public:
  void keep(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    there_.notify_all();
  }

  /// The value, once; nothing after `limit`.
  std::optional<T> wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    there_.wait_for(lock, limit, [this] { return value_.has_value(); });
    return std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<T> value_;
};

}  // namespace grapevine
