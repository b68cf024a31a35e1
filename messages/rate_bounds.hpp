// The bounds of a rate that a peer may report for an edge. The codec refuses other values.
#pragma once

namespace grapevine {

constexpr double kLeastRate = 1e-9, kMostRate = 1e9;  // exchanges per second

}  // namespace grapevine
