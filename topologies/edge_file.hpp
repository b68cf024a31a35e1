// The contents of an edge file, before a graph is made of it.
#pragma once
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// How many ranks the file has that a spec names (see names_edge_file): one more than the highest.
Result<int> ranks_of_edge_file(const std::string& spec);

}  // namespace grapevine
