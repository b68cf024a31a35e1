// The contents of an edge file.
#pragma once
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// The number of ranks in the file that the spec names (see names_edge_file): the highest rank + 1.
Result<int> ranks_of_edge_file(const std::string& spec);

}  // namespace grapevine
