// NextTimer: the one timer of an actor that has to act at several times. A CAF timer cannot be
// cancelled. So the actor sends itself a message for the earliest time, and ignores a message that
// comes before the time for which it now waits. A value; times in seconds.
#pragma once
#include <limits>

namespace grapevine {

class NextTimer {
 public:
  /// True: send a message at `at`. False: an earlier one is on its way.
  bool arm(double at) {
    if (at >= at_) return false;
    at_ = at;
    return true;
  }

  /// Call it for each message. False: ignore the message, because one for a later time is on its
  /// way.
  bool rings(double now) {
    if (now + kRounding_s < at_) return false;
    at_ = kNone;
    return true;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  static constexpr double kRounding_s = 1e-6;  // of timers

  double at_ = kNone;  // kNone: no message is on its way
};

}  // namespace grapevine
