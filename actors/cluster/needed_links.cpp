#include "actors/cluster/needed_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "actors/algorithms/method_registry.hpp"
#include "actors/node/topology_manager.hpp"

namespace grapevine {

namespace {

// The places with which a rank exchanges messages. `graph` is used if the method uses a graph.
std::vector<size_t> peers_of(const Method& method, const Topology& graph, size_t place,
                             size_t count) {
  std::vector<size_t> peers;
  if (method.goes_by_graph()) {
    for (const Neighbour& n : graph.neighbours(static_cast<int>(place)))
      peers.push_back(static_cast<size_t>(n.rank));
  } else if (method.pattern == Pattern::collective) {
    for (size_t k = 0; k < count; ++k)
      peers.push_back(k);
  } else {
    for (size_t step = 1; step < count; step *= 2) {
      peers.push_back((place + step) % count);
      peers.push_back((place + count - step) % count);
    }
  }
  return peers;
}

}  // namespace

std::vector<uint32_t> nodes_talked_to(const Settings& s, const std::string& topology,
                                      const std::vector<uint32_t>& nodes, uint32_t node) {
  const Method& method = method_named(s.method);
  std::set<uint32_t> others;
  if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) return {};
  const Topology graph = method.goes_by_graph()
                             ? graph_of(topology, static_cast<int>(nodes.size()), s.rate)
                             : Topology();
  for (size_t place = 0; place < nodes.size(); ++place) {
    if (nodes[place] != node) continue;
    for (const size_t peer : peers_of(method, graph, place, nodes.size()))
      others.insert(nodes[peer]);
  }
  others.erase(node);
  return {others.begin(), others.end()};
}

Status check_links(const Settings& s, const Topology& graph, const std::vector<uint32_t>& nodes) {
  const Method& method = method_named(s.method);
  std::map<uint32_t, std::set<uint32_t>> others;
  for (size_t place = 0; place < nodes.size(); ++place)
    for (const size_t peer : peers_of(method, graph, place, nodes.size()))
      if (nodes[peer] != nodes[place]) others[nodes[place]].insert(nodes[peer]);
  size_t most = 0;
  for (const auto& [node, its] : others)
    most = std::max(most, its.size());
  if (most <= kNeighboursAtMost) return Done{};
  return user_error(
      fmt::format("{}: a node would need links to {} others, accepted: at most {}",
                  method.goes_by_graph() ? "topology " + graph.name() : "method " + s.method, most,
                  kNeighboursAtMost));
}

}  // namespace grapevine
