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

/// The name of the first entry that the record lacks, or has in another size or type than the rule
/// needs. Empty: a rank can resume from it.
std::string misfit_of(const RankRecord&, const RuleState&);

/// Writes what is in both into the rule's state: what follows model and rank, or what follows the
/// graph.
enum class Recalled { rank, graph };
void recall(const Execution&, const RankRecord&, const RuleState&, Recalled);

/// The guard of the rank, to and from the numbers of its record. Missing or impossible numbers
/// become those of a rank that has not stepped.
void add_guard(RankRecord&, const GuardRecord&);
GuardRecord guard_of(const RankRecord&);

}  // namespace grapevine
