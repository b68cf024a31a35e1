// CoreShare: whether a thread that computes has a core to itself. It compares the time of its work
// on the clock and on the processor. A value.
#pragma once

namespace grapevine {

class CoreShare {
 public:
  /// Call it after each piece of work.
  void add(double wall_s, double cpu_s) {
    wall_s_ += wall_s;
    cpu_s_ += cpu_s;
    pieces_ += 1;
    if (wall_s_ < kWindow_s) return;
    const bool waits = cpu_s_ < (contended_ ? kAlone : kWaits) * wall_s_;
    contended_ = waits && cpu_s_ > kLeast_s * pieces_;
    wall_s_ = cpu_s_ = pieces_ = 0;
  }

  /// Whether the thread has waited for its core, and its work takes much longer than waking another
  /// thread. Then it pays to wake other threads for the actors.
  bool contended() const { return contended_; }

 private:
  static constexpr double kWindow_s = 0.05;
  static constexpr double kWaits = 0.85, kAlone = 0.95;  // share of its time on the processor
  static constexpr double kLeast_s = 1e-4;               // of a piece of work

  double wall_s_ = 0, cpu_s_ = 0, pieces_ = 0;
  bool contended_ = false;
};

}  // namespace grapevine
