// TimerQueue: messages, ordered by the time at which they are due; for equal times, by the order of
// put(). TimerClock: CAF's actor clock, which calls put().
//
// An actor has one idle time-out: a new one, or its cancellation, makes the earlier ones void.
// These must not be delivered, because an old one would re-arm its actor without end.
#pragma once
#include <caf/all.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace grapevine {

/// One thread at a time may use it.
class TimerQueue {
 public:
  using time_point = caf::actor_clock::time_point;
  struct Timer {
    caf::strong_actor_ptr to;
    caf::mailbox_element_ptr message;
    bool idle = false;
  };

  bool empty() const { return heap_.empty(); }
  time_point next() const { return heap_.front().at; }  // REQUIRES: not empty

  void put(time_point at, Timer);
  /// The earliest; no value if it is void. REQUIRES: not empty.
  std::optional<Timer> take();
  void cancel_idle(caf::actor_id actor) { idle_.erase(actor); }
  /// Empties the queue. The destructors of dropped entries may send messages, so the caller chooses
  /// the time.
  [[nodiscard]] std::vector<Timer> clear();

 private:
  struct Key {  // small, because the heap moves it
    time_point at;
    uint64_t sequence;
    uint32_t timer;
    bool operator<(const Key& o) const { return at != o.at ? at > o.at : sequence > o.sequence; }
  };

  uint64_t sequence_ = 0;
  std::vector<Key> heap_;
  std::vector<Timer> timers_;
  std::vector<uint32_t> free_;  // places in timers_
  std::map<caf::actor_id, uint64_t> idle_;
};

class TimerClock : public caf::actor_clock {
 public:
  void set_ordinary_timeout(time_point, caf::abstract_actor*, caf::atom_value, uint64_t) final;
  void set_multi_timeout(time_point, caf::abstract_actor*, caf::atom_value, uint64_t) final;
  void set_request_timeout(time_point, caf::abstract_actor*, caf::message_id) final;
  void cancel_ordinary_timeout(caf::abstract_actor* actor, caf::atom_value) final;
  void cancel_request_timeout(caf::abstract_actor*, caf::message_id) final {}
  void cancel_timeouts(caf::abstract_actor* actor) final;
  void schedule_message(time_point, caf::strong_actor_ptr, caf::mailbox_element_ptr) final;
  void schedule_message(time_point, caf::group, caf::strong_actor_ptr, caf::message) final;

 protected:
  virtual void put(time_point, TimerQueue::Timer) = 0;
  virtual void cancel_idle(caf::actor_id) = 0;
};

}  // namespace grapevine
