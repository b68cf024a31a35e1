// RuleState: every vector and every number that a rule keeps from one gradient to the next, by
// name. Whatever carries a rank on (a newcomer, a restart, another rank number, a checkpoint) goes
// by this list and nothing else, so what a rule adds here is never lost on the way.
//
// Views into the rule: they hold until its next call, and what is written through them is its
// state. The order is the same for all ranks of a run, and the graph does not change it but for
// what is of the graph.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

/// With whom a part of a rule's state goes along.
enum class Follows : uint8_t {
  model,  // with the model: a newcomer takes it over from any rank
  rank,   // with the rank that goes on under another number or later
  graph,  // with the edges of this graph: an edge or an epoch that is new begins
          // without it
};

struct RuleState {
  struct Vector {
    std::string name;
    Vec values;
    Follows follows;
  };
  struct Number {
    std::string name;
    std::variant<uint64_t*, double*> value;
    Follows follows;
  };

  std::vector<Vector> vectors;  // "x" first; of those that follow the model, an optimizer's last
  std::vector<Number> numbers;  // those that follow the model are counters

  void add(std::string name, Vec values, Follows follows) {
    vectors.push_back({std::move(name), values, follows});
  }
  void add(std::string name, uint64_t& value, Follows follows) {
    numbers.push_back({std::move(name), &value, follows});
  }
  void add(std::string name, double& value, Follows follows) {
    GV_CHECK(follows != Follows::model);
    numbers.push_back({std::move(name), &value, follows});
  }
};

/// A copy of what goes along: by the order of RuleState, numbers by their bits.
struct SavedState {
  std::vector<Buffer> vectors;
  std::vector<uint64_t> numbers;
  bool whole = false;  // with what follows the rank; else only what follows the model
};

SavedState save(const Execution&, const RuleState&, bool whole);

/// Writes the copy into the state of a rule of the same method, settings and layout. The vectors
/// after the model may be of a rank with another optimizer, or none: then the last vectors keep
/// their values.
void restore(const Execution&, const SavedState&, const RuleState&);

}  // namespace grapevine
