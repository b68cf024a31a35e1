// Which nodes talk to each other, by what their ranks do. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "actors/membership/connector.hpp"
#include "actors/settings/settings.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

/// Of a node's kLinksAtMost links those that the membership needs are not for the ranks.
constexpr size_t kNeighboursAtMost = kLinksAtMost - 8;

/// The nodes to whose ranks those of `node` talk, rising: neighbours in the graph, everybody where
/// a method sends around all ranks, the peers of the exponential schedule. `nodes` has the node of
/// each rank, in the order of the graph's places.
std::vector<uint32_t> nodes_talked_to(const Settings&, const std::string& topology,
                                      const std::vector<uint32_t>& nodes, uint32_t node);

/// Refuses, in one line, a graph in which a node talks to more than kNeighboursAtMost others.
Status check_links(const Settings&, const Topology&, const std::vector<uint32_t>& nodes);

}  // namespace grapevine
