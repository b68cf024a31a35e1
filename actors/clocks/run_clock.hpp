// RunClock: seconds since the start of a run, on the clock of an actor system, wall or virtual.
#pragma once
#include <caf/all.hpp>
#include <cmath>

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

 private:
  caf::actor_clock* clock_;
  Instant start_;
};

}  // namespace grapevine
