// A rank's record (checkpoint_orders.hpp) out of what its rule keeps, and back.
//
// What the graph's edges have (factors, relays) is taken over only where the edge is the same one.
#pragma once
#include <string>

#include "actors/algorithms/rule_state.hpp"
#include "actors/guard/guard.hpp"
#include "actors/settings/checkpoint_orders.hpp"

namespace grapevine {

/// Copies of all that the rule keeps.
RankRecord record_of(const Execution&, const RuleState&);

/// What the record lacks of what such a rule must have, or has in another size or type: a name.
/// Empty: a rank can go on from it.
std::string misfit_of(const RankRecord&, const RuleState&);

/// Writes what is in both into the rule's state: what follows model and rank, or what follows the
/// graph.
enum class Recalled { rank, graph };
void recall(const Execution&, const RankRecord&, const RuleState&, Recalled);

/// The guard of the rank, among the numbers of its record, and back. What is missing, or no number
/// that a guard can have, is as at a rank that has not stepped.
void add_guard(RankRecord&, const GuardRecord&);
GuardRecord guard_of(const RankRecord&);

}  // namespace grapevine
