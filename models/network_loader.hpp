// The door to the network module: the one place that knows that libgrapevine-network.so is loaded
// on demand.
//
// Only networks need LibTorch (some 110 MB in a process and a tenth of a second to load), so what
// trains none never opens it. The module is looked for beside the running program, in
// ../lib/grapevine from there, and where this build put it. It stays loaded until the process ends.
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// Errors (world): no module at any of the three places, or one that cannot be loaded; the line
/// names them.
Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec&);

}  // namespace grapevine
