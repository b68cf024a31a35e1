// CoreShare: whether a thread that computes has a core to itself, by the seconds that its work took
// on the clock and on the processor. A value.
#pragma once

namespace grapevine {

class CoreShare {
 public:
  /// A piece of work is over.
  void add(double wall_s, double cpu_s) {
    wall_s_ += wall_s;
    cpu_s_ += cpu_s;
    pieces_ += 1;
    if (wall_s_ < kWindow_s) return;
    const bool waits = cpu_s_ < (contended_ ? kAlone : kWaits) * wall_s_;
    contended_ = waits && cpu_s_ > kLeast_s * pieces_;
    wall_s_ = cpu_s_ = pieces_ = 0;
  }

  /// It has waited for its core, and its work is long beside the waking of another thread, so that
  /// others may well be woken to run actors at once.
  bool contended() const { return contended_; }

 private:
  static constexpr double kWindow_s = 0.05;
  static constexpr double kWaits = 0.85, kAlone = 0.95;  // of its time on the processor
  static constexpr double kLeast_s = 1e-4;               // of a piece of work

  double wall_s_ = 0, cpu_s_ = 0, pieces_ = 0;
  bool contended_ = false;
};

}  // namespace grapevine
