// SmoothedTime: what something usually takes, by samples: their smoothed mean and mean deviation,
// as TCP has it for its round trips (Jacobson, SIGCOMM 1988; RFC 6298).
#pragma once
#include <cmath>

namespace grapevine {

class SmoothedTime {
 public:
  SmoothedTime() = default;  // nothing is known yet
  explicit SmoothedTime(double expected_s) : mean_s_(expected_s), deviation_s_(expected_s / 2) {}

  void add(double sample_s) {
    if (!is_known()) return void(*this = SmoothedTime(sample_s));
    deviation_s_ += (std::abs(sample_s - mean_s_) - deviation_s_) / 4;
    mean_s_ += (sample_s - mean_s_) / 8;
  }
  bool is_known() const { return mean_s_ >= 0; }
  // REQUIRES: it is known.
  double mean_s() const { return mean_s_; }
  double most_s() const { return mean_s_ + 4 * deviation_s_; }  // hardly any take longer

 private:
  double mean_s_ = -1, deviation_s_ = 0;
};

}  // namespace grapevine
