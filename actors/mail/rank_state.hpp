// RankState: the state that a rank copies from another rank.
#pragma once
#include <memory>

#include "actors/algorithms/rule_state.hpp"
#include "actors/guard/guard.hpp"

namespace grapevine {

struct RankState : SavedState {
  uint64_t gradients = 0;  // that the rank has taken
  GuardRecord guard;       // from a rank of another node: only its usual step
};
using RankStatePtr = std::shared_ptr<const RankState>;

}  // namespace grapevine
