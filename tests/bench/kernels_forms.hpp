// Ways to store the vectors of a guest's rank, and their costs.
//
// The script's parameters are the front. The rank's x takes the script's changes of the front, and
// the front takes those of gossip. With d = x~ - x, which only mixing makes smaller:
//
//   stored       vectors of the rank             words moved by a STEP, a snapshot, a jump
//   x, x~        front, base, x, x~              8, 3, 6
//   x, d         front, base, x, d               7, 3, 6
//   unseen, d    front = base, unseen (the       5, 3, 5; from the second jump after a STEP on:
//                changes of gossip since), d;    5, 4, 6
//                x = base + unseen + a d
#pragma once
#include <algorithm>
#include <vector>

namespace grapevine::bench {

/// One thread, fp32, 0.42 and 10 million parameters: microseconds of each pass, and of a STEP with
/// one exchange, as medians over interleaved rounds.
void print_forms();

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace grapevine::bench
