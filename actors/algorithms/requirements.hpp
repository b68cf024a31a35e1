// Requirements: what a method requires of its settings and of the graph before a run begins. A
// setting that it would ignore is refused too.
#pragma once
#include <string>

#include "actors/algorithms/method_registry.hpp"

namespace grapevine {

/// Whether the graph, the weights and the settings fit the method; one line if not. Ignores
/// `compress`.
Status check_requirements(const Method&, const RuleSettings&, const std::string& weights,
                          const Topology&);

}  // namespace grapevine
