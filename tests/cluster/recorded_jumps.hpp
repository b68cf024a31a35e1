// The jumps of the pairwise rules, as the ranks that own them have applied them: "recorded_ad_psgd"
// and "recorded_a2cid2" are those methods, and each jump is kept beside what it has moved.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "actors/algorithms/exchange_key.hpp"

namespace grapevine::test {

struct RecordedJump {
  int rank = 0;
  uint64_t rule = 0;  // of all that were made; a rank that moves, or begins anew, has another
  ExchangeKey exchange;
  std::array<double, 6> sent{}, received{};
  std::array<double, 6> moved{};  // x + x~ of the rank, 2 x where there is no twin
};

/// The name of a pairwise method whose jumps are recorded.
std::string recorded(const std::string& method);

/// Those of all ranks since the last call.
std::vector<RecordedJump> take_recorded_jumps();

}  // namespace grapevine::test
