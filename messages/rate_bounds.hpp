// The rates that a peer may tell of an edge. A value outside is refused by the codec.
#pragma once

namespace grapevine {

constexpr double kLeastRate = 1e-9, kMostRate = 1e9;  // exchanges per second

}  // namespace grapevine
