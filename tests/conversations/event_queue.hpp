// EventQueue: what happens to conversations in a test, by its time, at one time in the order of
// scheduling; and the timers that they arm.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <queue>

#include "actors/conversations/conversation.hpp"

namespace grapevine::test {

class EventQueue {
 public:
  double now() const { return now_; }
  void schedule(double at, std::function<void()> act) {
    queue_.push({at, ++order_, std::move(act)});
  }

  /// Event by event. False: they came to an end, or a day of them, and it was not done.
  bool run_until(const std::function<bool()>& done) {
    while (!queue_.empty() && now_ < 1e5) {
      const Event next = queue_.top();
      queue_.pop();
      now_ = next.at;
      next.act();
      if (done()) return true;
    }
    return false;
  }

 private:
  struct Event {
    double at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  std::priority_queue<Event> queue_;
  double now_ = 0;
  uint64_t order_ = 0;
};

/// Of one conversation; outlives the queue's events.
class Timers {
 public:
  void arm(EventQueue& queue, const Arm& a, std::function<void()> ring) {
    const uint64_t serial = ++serials_[a.timer];
    if (a.at == kNever) return;
    queue.schedule(a.at, [this, serial, id = a.timer, ring = std::move(ring)] {
      if (serials_[id] == serial) ring();
    });
  }

 private:
  std::map<int, uint64_t> serials_;  // by timer, of the arming that counts
};

}  // namespace grapevine::test
