// RankState: what a rank takes over from another one, so that it goes on where that one stands.
#pragma once
#include <memory>

#include "actors/algorithms/rule_state.hpp"
#include "actors/guard/guard.hpp"

namespace grapevine {

struct RankState : SavedState {
  uint64_t gradients = 0;  // that the rank has taken
  GuardRecord guard;       // of another node's rank its usual step alone
};
using RankStatePtr = std::shared_ptr<const RankState>;

}  // namespace grapevine
