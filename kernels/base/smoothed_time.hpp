// SmoothedTime: the usual duration of something: the smoothed mean of samples and their mean
// deviation, as TCP estimates round trips (Jacobson, SIGCOMM 1988; RFC 6298).
#pragma once
#include <cmath>

namespace grapevine {

class SmoothedTime {
 public:
  SmoothedTime() = default;  // unknown so far
  explicit SmoothedTime(double expected_s) : mean_s_(expected_s), deviation_s_(expected_s / 2) {}

  void add(double sample_s) {
    if (!is_known()) return void(*this = SmoothedTime(sample_s));
    deviation_s_ += (std::abs(sample_s - mean_s_) - deviation_s_) / 4;
    mean_s_ += (sample_s - mean_s_) / 8;
  }
  bool is_known() const { return mean_s_ >= 0; }
  // REQUIRES: it is known.
  double mean_s() const { return mean_s_; }
  double most_s() const { return mean_s_ + 4 * deviation_s_; }  // few samples exceed it

 private:
  double mean_s_ = -1, deviation_s_ = 0;
};

}  // namespace grapevine
