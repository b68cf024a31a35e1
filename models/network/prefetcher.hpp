// Prefetcher: a thread that prepares the next batch while LibTorch queues the present gradient on a
// GPU.
#pragma once
#include <condition_variable>
#include <functional>
#include <thread>
#include <utility>

#include "kernels/base/mutex.hpp"

namespace grapevine {

class Prefetcher {
 public:
  Prefetcher() = default;
  Prefetcher(const Prefetcher&) = delete;
  ~Prefetcher() {
    if (!thread_.joinable()) return;
    {
      const Lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Runs the task on the thread, after the one before.
  void begin(std::function<void()> task) {
    wait();
    {
      const Lock lock(mutex_);
      task_ = std::move(task);
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
  }

  /// Until the task has ended.
  void wait() {
    Lock lock(mutex_);
    changed_.wait(lock, [this]() GV_REQUIRES(mutex_) { return !task_; });
  }

 private:
  void work() {
    Lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this]() GV_REQUIRES(mutex_) { return stopping_ || task_; });
      if (!task_) return;
      const std::function<void()> task = task_;
      lock.unlock();
      task();
      lock.lock();
      task_ = {};
      changed_.notify_all();
    }
  }

  Mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_ GV_GUARDED_BY(mutex_);
  bool stopping_ GV_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace grapevine
