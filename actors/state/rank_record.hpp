// Converts the state of a rank to its record (checkpoint_orders.hpp), and back.
//
// The state of an edge (factors, relays) is taken over only if the edge is the same one.
#pragma once
#include <string>

#include "actors/algorithms/rule_state.hpp"
#include "actors/guard/guard.hpp"
#include "actors/settings/checkpoint_orders.hpp"

namespace grapevine {

/// Copies the whole state of the rule.
RankRecord record_of(const Execution&, const RuleState&);

/// The name of the first entry that the record lacks, or has in another size or type than the rule
/// needs. Empty: a rank can resume from it.
std::string misfit_of(const RankRecord&, const RuleState&);

/// Copies the entries that are in both into the rule's state: those of the model and the rank, or
/// those of the graph.
enum class Recalled { rank, graph };
void recall(const Execution&, const RankRecord&, const RuleState&, Recalled);

/// The guard of the rank, to and from the numbers of its record. A missing or impossible number
/// gets its value in a rank that has taken no step.
void add_guard(RankRecord&, const GuardRecord&);
GuardRecord guard_of(const RankRecord&);

}  // namespace grapevine
