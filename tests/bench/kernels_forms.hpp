// What may be kept of a guest's rank, and what each way costs.
//
// The script's parameters are the front, of which the rank's x must take what the script has done
// and show what gossip has. With d = x~ - x, which mixing makes smaller alone:
//
//   x, x~        front, base, x, x~                                 STEP 8 words, snapshot 3, jump
//   6 x, d         front, base, x, d                                  7, 3, 6 unseen, d    front =
//   base, what gossip has done since, and d:   5, 3, 5; from the second jump
//                x = base + unseen + a d                            since a STEP on: 5, 4, 6
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
