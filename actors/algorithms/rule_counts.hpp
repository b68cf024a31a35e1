// RuleCounts: what a rule counts, for reports. A value.
#pragma once
#include <cstdint>

namespace grapevine {

struct RuleCounts {
  double relay_count = 0;  // ranks whose contribution is in the average (relay methods)
  double push_weight = 0;  // of push-sum
  uint64_t reseeded = 0;   // edges whose factors differed and began anew
};

}  // namespace grapevine
