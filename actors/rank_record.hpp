// RankRecord: everything that a rank goes on from, by name, as it was at one instant: what a
// checkpoint keeps of it.
//
// Names, not places, so that a record outlives the order in which a rule lists what it keeps. What
// the graph's edges have (factors, relays) is taken over only where the edge is the same one.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "actors/algorithms/rule_state.hpp"
#include "kernels/result.hpp"

namespace grapevine {

struct RankRecord {
  struct Vector {
    std::string name;
    Buffer values;
  };
  struct Number {
    std::string name;
    uint64_t bits = 0;
    bool is_real = false;  // a double's bits
  };
  /// What the exchanges of an edge had done to this end.
  struct Edge {
    int peer = 0;
    uint32_t incarnation = 0, peer_incarnation = 0;
    uint64_t exchanges = 0;  // the number of the last one
    double moved = 0;        // |the change of what gossip conserves|, summed over them
    double last = 0;         // of the last one
  };

  int rank = 0;
  uint64_t gradients = 0;       // that it has taken
  std::vector<Vector> vectors;  // "x" first
  std::vector<Number> numbers;
  Buffer statistics;  // Objective::statistics; empty where there are none
  std::vector<Edge> edges;
};
using RankRecordPtr = std::shared_ptr<const RankRecord>;

/// Copies of all that the rule keeps.
RankRecord record_of(const Execution&, const RuleState&);

/// What the record lacks of what such a rule must have, or has in another size or type: a name.
/// Empty: a rank can go on from it.
std::string misfit_of(const RankRecord&, const RuleState&);

/// Writes what is in both into the rule's state: what follows model and rank, or what follows the
/// graph.
enum class Recalled { rank, graph };
void recall(const Execution&, const RankRecord&, const RuleState&, Recalled);

}  // namespace grapevine
