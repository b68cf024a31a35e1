#include "actors/cluster/needed_links.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "actors/algorithms/method_registry.hpp"
#include "actors/topology_manager.hpp"

namespace grapevine {

namespace {

// Places with which a rank trades messages, without a graph: all, or those of a schedule.
std::vector<size_t> peers_without_graph(const Method& method, size_t place, size_t count) {
  std::vector<size_t> peers;
  if (method.pattern == Pattern::collective) {
    for (size_t k = 0; k < count; ++k)
      peers.push_back(k);
    return peers;
  }
  for (size_t step = 1; step < count; step *= 2) {
    peers.push_back((place + step) % count);
    peers.push_back((place + count - step) % count);
  }
  return peers;
}

bool goes_by_graph(const Method& method) {
  return method.pattern != Pattern::collective && !method.one_peer;
}

}  // namespace

std::vector<uint32_t> nodes_talked_to(const Settings& s, const std::string& topology,
                                      const std::vector<uint32_t>& nodes, uint32_t node) {
  const Method& method = method_named(s.method);
  std::set<uint32_t> others;
  if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) return {};
  const Topology graph = goes_by_graph(method)
                             ? graph_of(topology, static_cast<int>(nodes.size()), s.rate)
                             : Topology();
  for (size_t place = 0; place < nodes.size(); ++place) {
    if (nodes[place] != node) continue;
    if (!goes_by_graph(method))
      for (const size_t peer : peers_without_graph(method, place, nodes.size()))
        others.insert(nodes[peer]);
    else
      for (const Neighbour& n : graph.neighbours(static_cast<int>(place)))
        others.insert(nodes[static_cast<size_t>(n.rank)]);
  }
  others.erase(node);
  return {others.begin(), others.end()};
}

Status check_links(const Settings& s, const Topology& graph, const std::vector<uint32_t>& nodes) {
  const Method& method = method_named(s.method);
  std::map<uint32_t, std::set<uint32_t>> others;
  if (goes_by_graph(method)) {
    for (const Edge& e : graph.edges()) {
      const uint32_t i = nodes[static_cast<size_t>(e.i)], j = nodes[static_cast<size_t>(e.j)];
      if (i == j) continue;
      others[i].insert(j);
      others[j].insert(i);
    }
  } else {
    for (size_t place = 0; place < nodes.size(); ++place)
      for (const size_t peer : peers_without_graph(method, place, nodes.size()))
        if (nodes[peer] != nodes[place]) others[nodes[place]].insert(nodes[peer]);
  }
  size_t most = 0;
  for (const auto& [node, its] : others)
    most = std::max(most, its.size());
  if (most <= kNeighboursAtMost) return Done{};
  return user_error(goes_by_graph(method)
                        ? "topology " + graph.name() + ": a node would talk to " +
                              std::to_string(most) + " others, accepted: at most " +
                              std::to_string(kNeighboursAtMost)
                        : "method " + s.method + ": a node would talk to " + std::to_string(most) +
                              " others, accepted: at most " + std::to_string(kNeighboursAtMost));
}

}  // namespace grapevine
