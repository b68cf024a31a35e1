// RunClock: seconds since the start of a run, on the clock of an actor system, wall or virtual; and
// messages at a time of that clock.
#pragma once
#include <caf/all.hpp>
#include <cmath>
#include <cstdint>
#include <utility>

namespace grapevine {

class RunClock {
 public:
  using Instant = caf::actor_clock::time_point;

  explicit RunClock(caf::actor_system& system)
      : clock_(&system.clock()), start_(system.clock().now()) {}

  double now() const { return static_cast<double>((clock_->now() - start_).count()) * 1e-9; }

  /// Rounded up to whole nanoseconds, so never before the time asked for.
  Instant instant(double seconds) const {
    return start_ + caf::actor_clock::duration_type{static_cast<int64_t>(std::ceil(seconds * 1e9))};
  }

  /// The actor gets the message at that time, from no sender. Until then the clock keeps the actor.
  template <class Actor, class Message>
  void send_at(double seconds, const Actor& to, Message&& message) const {
    clock_->schedule_message(instant(seconds), caf::actor_cast<caf::strong_actor_ptr>(to),
                             caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                                       std::forward<Message>(message)));
  }

 private:
  caf::actor_clock* clock_;
  Instant start_;
};

}  // namespace grapevine
