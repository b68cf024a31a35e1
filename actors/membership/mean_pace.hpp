// MeanPace and MeanCount: how often a member may ask for a mean of all ranks, and whether it asks
// more often. Values; `now` in seconds.
//
// Each request starts a new mean at all nodes, so a node that asks without end would let no mean
// finish. A node asks at most eight times in a row and then once every two seconds, unless it is
// alone. It allows other nodes twice as much, because their requests may arrive late. All nodes
// with the same counts ignore a node that asks for more.
#pragma once
#include <algorithm>
#include <cstdint>

namespace grapevine {

constexpr double kMeanEach_s = 2;
constexpr uint32_t kMeansInARow = 8;

class MeanPace {
 public:
  double due() const { return until_ - (kMeansInARow - 1) * kMeanEach_s; }
  void count(double now) { until_ = std::max(until_, now) + kMeanEach_s; }

 private:
  double until_ = 0;  // those that were asked for are accounted for
};

class MeanCount {
 public:
  MeanCount(double now, uint32_t count) : since_(now), last_(count) {}

  /// It has asked so often by now. False: that is too often, and from now on.
  bool allows(double now, uint32_t count) {
    asked_ += count > last_ ? count - last_ : last_ > count;
    last_ = count;
    is_over_ =
        is_over_ || static_cast<double>(asked_) > 2 * (kMeansInARow + (now - since_) / kMeanEach_s);
    return !is_over_;
  }

 private:
  double since_ = 0;
  uint32_t last_ = 0;
  uint64_t asked_ = 0;  // since then; a count that falls is one more
  bool is_over_ = false;
};

}  // namespace grapevine
