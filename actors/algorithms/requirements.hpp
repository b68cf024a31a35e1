// Requirements: what a method asks of its settings and of the graph before a run begins. What it
// would ignore is refused, too.
#pragma once
#include <string>

#include "actors/algorithms/method_registry.hpp"

namespace grapevine {

/// The graph, the weights and the settings fit the row; one line otherwise. `compress` apart.
Status check_requirements(const Method&, const RuleSettings&, const std::string& weights,
                          const Topology&);

}  // namespace grapevine
