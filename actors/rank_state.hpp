// RankState: what a rank takes over from another one, so that it goes on where that one stands.
#pragma once
#include <memory>
#include <vector>

#include "kernels/vec.hpp"

namespace grapevine {

struct RankState {
  std::vector<Buffer> vectors;  // x, and what else the rule has (Rule::vectors)
  uint64_t gradients = 0;
};
using Donation = std::shared_ptr<const RankState>;

}  // namespace grapevine
