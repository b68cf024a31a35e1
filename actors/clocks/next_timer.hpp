// NextTimer: the one timer of an actor that has to act at several times. A CAF timer cannot be
// taken back. So the actor sends itself a message for the earliest time, and ignores a message that
// comes before the time for which it waits now. A value; times in seconds.
#pragma once
#include <limits>

namespace grapevine {

class NextTimer {
 public:
  /// True: a message is to be sent at `at`. False: an earlier one is on its way.
  bool arm(double at) {
    if (at >= at_) return false;
    at_ = at;
    return true;
  }

  /// A message has come. False: it is ignored, because one for a later time is on its way.
  bool rings(double now) {
    if (now + kRounding_s < at_) return false;
    at_ = kNone;
    return true;
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  static constexpr double kRounding_s = 1e-6;  // of a timer's time

  double at_ = kNone;  // kNone: no message is on its way
};

}  // namespace grapevine
