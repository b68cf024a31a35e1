// Finds the places of the k largest |v|: exact, in about one pass over v.
#pragma once
#include <vector>

#include "kernels/memory/vec.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine::codec {

/// The places of the `count` <= v.size largest |v_i| in ascending order; of equal values the first.
/// A NaN counts as the smallest. v has fewer than 2^32 elements.
std::vector<uint32_t> largest_places(const CpuBuild&, ConstVec v, size_t count);

}  // namespace grapevine::codec
