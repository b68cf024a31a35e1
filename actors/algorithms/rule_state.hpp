// RuleState: every vector and number that a rule keeps from one gradient to the next, by name. A
// state is copied by this list alone (to a new node, after a restart, to another rank number, to a
// checkpoint), so whatever a rule adds here is never lost.
//
// These are views into the rule. They are valid until its next call, and writes through them change
// its state. The order is the same for all ranks of a run. The graph changes only the entries of
// the graph.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

/// The owner of a part of a rule's state.
enum class Follows : uint8_t {
  model,  // the model: a new node copies it from any rank
  rank,   // the rank, also under another number or after a restart
  graph,  // the edges of this graph; a new edge or epoch starts without it
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

  std::vector<Vector> vectors;  // "x" first; an optimizer's are the last ones of the model
  std::vector<Number> numbers;  // those of the model are counters

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

/// A copy of a state, in the order of RuleState; numbers by their bits.
struct SavedState {
  std::vector<Buffer> vectors;
  std::vector<uint64_t> numbers;
  bool whole = false;  // includes what follows the rank, not only what follows the model
};

SavedState save(const Execution&, const RuleState&, bool whole);

/// Writes the copy into the state of a rule of the same method, settings and layout. The copy may
/// come from a rank with another optimizer, or without one: then the last vectors keep their
/// values.
void restore(const Execution&, const SavedState&, const RuleState&);

}  // namespace grapevine
