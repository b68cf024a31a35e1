// Loads the network module, libgrapevine-network.so, on demand.
//
// Only networks need LibTorch (some 110 MB in a process and a tenth of a second to load), so a
// program that trains none never opens it. The loader looks in $GRAPEVINE_MODULE_PATH, beside the
// running program, in bin/ and ../lib/grapevine from there, and in grapevine/ beside the shared
// library that this code is part of. The module stays loaded until the process ends. Its PyTorch is
// that of $GRAPEVINE_LIBTORCH, the one beside a program that a wheel has installed, or the one that
// the module was built with.
#pragma once
#include <memory>

#include "models/objective.hpp"

namespace grapevine {

/// Errors (world): no module at any of these places, or one that cannot be loaded; the line
/// names them.
Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec&);

/// Whether networks of all kinds can compute as the spec wants: clip, precision. Error (user).
Status check_gradients(const ObjectiveSpec&);

/// Opens the module that networks would use, and returns its path. Errors: as above.
Result<std::string> open_network_module();

}  // namespace grapevine
