// Patience: how long a rank waits for a message of one neighbour before it asks for it, in units of
// the first patience.
//
// A message that comes again after a question was only late: the question was too early, so the
// patience doubles. If the message comes once, after one question, the question was needed, so the
// patience is halved. After several questions it is kept: the neighbour had not sent the message
// yet. Each message that comes unasked shortens it a little. So few messages are sent twice however
// slow the machine is, and a lossy link is asked soon again. The times that a rank waits do not
// tell it this: in most of them its neighbours wait, too.
#pragma once
#include <algorithm>
#include <cstdint>

namespace grapevine {

class Patience {
 public:
  static constexpr double kMost = 64;

  double times() const { return times_; }

  /// A question for the message. True: it was asked for before.
  bool ask(uint64_t number) {
    const bool again = number == asked_;
    was_needed_ = !again;
    asked_ = number;
    return again;
  }

  /// A message that was not here yet. After one that is more than `ahead` numbers later, the answer
  /// to a question can no longer come.
  void came(uint64_t number, uint64_t ahead) {
    if (asked_ == kNone) {
      times_ = std::max(1.0, times_ * kShrink);
    } else if (number > asked_ + ahead) {
      if (was_needed_) times_ = std::max(1.0, times_ / 2);
      asked_ = kNone;
    }
  }

  /// A message that was here already, or was used.
  void repeated(uint64_t number) {
    if (number != asked_) return;
    was_needed_ = false;
    times_ = std::min(kMost, 2 * times_);
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr double kShrink = 1 - 1.0 / 64;

  double times_ = 1;
  uint64_t asked_ = kNone;   // the last one
  bool was_needed_ = false;  // as far as known
};

}  // namespace grapevine
