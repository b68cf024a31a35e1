// Which nodes need links to each other, because their ranks exchange. Pure functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "actors/membership/connector.hpp"
#include "actors/settings/settings.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

/// The most links for ranks. The rest of a node's kLinksAtMost links are for the membership.
constexpr size_t kNeighboursAtMost = kLinksAtMost - 8;

/// The nodes with ranks that those of `node` send to or receive from, rising: neighbours in the
/// graph, all nodes if a method uses a ring of all ranks, the peers of the exponential schedule.
/// `nodes` has the node of each rank, in the order of the graph's places.
std::vector<uint32_t> nodes_talked_to(const Settings&, const std::string& topology,
                                      const std::vector<uint32_t>& nodes, uint32_t node);

/// Refuses, in one line, a graph in which a node needs links to more than kNeighboursAtMost others.
Status check_links(const Settings&, const Topology&, const std::vector<uint32_t>& nodes);

}  // namespace grapevine
