// The bounds of rates that a peer may tell of an edge. The codec refuses a value outside them.
#pragma once

namespace grapevine {

constexpr double kLeastRate = 1e-9, kMostRate = 1e9;  // exchanges per second

}  // namespace grapevine
