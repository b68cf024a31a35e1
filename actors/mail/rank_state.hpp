// RankState: the state that a rank takes over from another rank in order to continue from it.
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
