// Pace: how often a node repeats work whose cost grows with the number of nodes: publishing a
// roster, looking at all members, forwarding all rates. A value without its own time; `now` in
// seconds.
//
// While many nodes join, each is new to all others. If each led to a roster and so to a graph, the
// total work would grow with the cube of their number. So work is done at once if the last time is
// long enough ago (a millisecond for each node), and otherwise when it is. Runs that are small
// enough to link all nodes do not wait.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>

#include "actors/membership/connector.hpp"

namespace grapevine {

class Pace {
 public:
  /// Work is due at the earliest `least_s` after want().
  explicit Pace(double least_s = 0) : least_s_(least_s) {}

  void want(double now, size_t nodes) {
    const double apart_s = nodes <= kAllLinked + 1 ? 0 : kApart_s * static_cast<double>(nodes);
    due_s_ = std::min(due_s_, std::max(now + least_s_, done_s_ + apart_s));
  }
  void want_at_once(double now) { due_s_ = std::min(due_s_, now); }
  void done(double now) {
    done_s_ = now;
    due_s_ = kNotWanted;
  }

  bool due(double now) const { return due_s_ <= now; }
  double at() const { return due_s_; }  // infinite: not wanted

 private:
  static constexpr double kApart_s = 1e-3;  // per node
  static constexpr double kNotWanted = std::numeric_limits<double>::infinity();

  double least_s_;
  double done_s_ = -kNotWanted, due_s_ = kNotWanted;
};

}  // namespace grapevine
