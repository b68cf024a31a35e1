// ExpectedDistance: how far apart the two ends of an edge may be, as far as their last exchanges
// tell.
//
//   bound = F level               what is farther than that is not averaged with: F is 100, first
//                                 more: from 10,000 after the first exchange down to 100 after the
//                                 eighth, since an edge may rest while a learning rate warms up
//   level                         follows the distances: down by a tenth at most, up by the factor
//                                 1 + 4 / (6 + n) at most, n exchanges so far, counted up to 24
//
// So the level keeps up with distances that grow like n^4 at first (a warm-up, momentum that sets
// in) and by an eighth an exchange later, and not with those of a rank whose steps diverge. What is
// left out raises a level that is known, too: two halves of a run that have drifted apart meet
// again.
// A value. Distances are norms, of whatever the ends compare.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace grapevine {

class ExpectedDistance {
 public:
  static constexpr double kFarther = 100, kFarthest = 10000;

  bool known() const { return level_ > 0; }
  /// Infinite until a distance above 0 has been seen.
  double bound() const {
    if (!known()) return std::numeric_limits<double>::infinity();
    const double young = seen_ < kYoung ? 1.0 - static_cast<double>(seen_) / kYoung : 0;
    return (kFarther + (kFarthest - kFarther) * young) * static_cast<double>(level_);
  }
  double level() const { return static_cast<double>(level_); }

  void learn(double distance) {
    if (!(distance > 0)) return;
    const auto most = static_cast<double>(std::numeric_limits<float>::max());
    if (known()) {
      const double level = static_cast<double>(level_);
      distance = std::clamp(distance, 0.9 * level, level * (1 + 4.0 / (6 + seen_)));
      seen_ = std::min(seen_ + 1, kSettled);
    } else if (!std::isfinite(distance)) {
      return;
    }
    level_ = static_cast<float>(std::clamp(distance, kLeast, most));
  }

 private:
  static constexpr uint32_t kYoung = 8, kSettled = 24;
  static constexpr double kLeast = 1e-30;

  float level_ = 0;
  uint32_t seen_ = 0;
};

}  // namespace grapevine
