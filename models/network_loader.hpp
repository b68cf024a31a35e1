// Loads the network module, libgrapevine-network.so, on demand.
//
// Only networks need LibTorch (some 110 MB in a process and a tenth of a second to load), so a
// program that trains no network never opens it. The loader looks in $GRAPEVINE_MODULE_PATH, beside
// the running program, in bin/ and ../lib/grapevine from there, and in grapevine/ beside the shared
// library that contains this code. The module stays loaded until the process ends. The module runs
// on the PyTorch in $GRAPEVINE_LIBTORCH, the one beside a program installed by a wheel, or the one
// of its build.
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// Errors (world): there is no module at any of these places, or it cannot be loaded; the message
/// names the places.
Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec&);

/// Checks that every kind of network can compute with the spec's clip and precision. Error (user).
Status check_gradients(const ObjectiveSpec&);

/// Opens the module that networks would use, and returns its path. Errors: make_network's.
Result<std::string> open_network_module();

}  // namespace grapevine
