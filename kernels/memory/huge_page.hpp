#pragma once
#include <cstddef>

namespace grapevine {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace grapevine
