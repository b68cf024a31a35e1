#include "topologies/trees.hpp"

#include <fmt/core.h>

#include <bit>
#include <numeric>
#include <utility>

#include "kernels/base/check.hpp"
#include "topologies/graphs.hpp"

namespace grapevine {
namespace {

uint8_t all_masks(const Topology& graph) {
  uint8_t masks = 0;
  for (const Edge& edge : graph.edges())
    masks |= edge.trees;
  return masks;
}

std::vector<Edge> edges_of(const Topology& graph, int tree) {
  std::vector<Edge> edges;
  for (Edge edge : graph.edges()) {
    if ((edge.trees >> tree & 1) == 0) continue;
    edge.trees = 1;
    edges.push_back(edge);
  }
  return edges;
}

/// n - 1 edges connect n ranks if no edge closes a cycle.
bool spans(int ranks, const std::vector<Edge>& edges) {
  if (edges.size() + 1 != static_cast<size_t>(ranks)) return false;
  std::vector<int> parent(static_cast<size_t>(ranks));
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const Edge& edge : edges) {
    const int a = root(edge.i), b = root(edge.j);
    if (a == b) return false;
    parent[a] = b;
  }
  return true;
}

}  // namespace

bool is_tree(const Topology& graph) {
  return graph.edges().size() + 1 == static_cast<size_t>(graph.ranks());  // it is connected
}

int tree_count(const Topology& graph) {
  const uint8_t masks = all_masks(graph);
  if (masks <= 1) return is_tree(graph) ? 1 : 0;
  const int count = std::bit_width(masks);
  for (int tree = 0; tree < count; ++tree) {
    if (!spans(graph.ranks(), edges_of(graph, tree))) return 0;
  }
  return count;
}

Status check_trees(const Topology& graph) {
  if (tree_count(graph) > 0) return Done{};
  const GraphRequest request{graph.name(), graph.ranks(), {}};
  return refused(request, fmt::format("not a tree: it has {} edges, a tree of these ranks has {}; "
                                      "accepted: a tree, such as {}, or double-binary-trees",
                                      graph.edges().size(), graph.ranks() - 1,
                                      in_quotes("spanning:" + graph.name())));
}

Topology tree_of(const Topology& graph, int tree) {
  const int count = tree_count(graph);
  GV_CHECK(tree >= 0);
  GV_CHECK(tree < count);
  if (count == 1) return graph;
  return *Topology::from_edges(graph.ranks(), edges_of(graph, tree),
                               fmt::format("{}, tree {}", graph.name(), tree));
}

BreadthFirst breadth_first(const Topology& graph, int root) {
  GV_CHECK(root >= 0);
  GV_CHECK(root < graph.ranks());
  const auto ranks = static_cast<size_t>(graph.ranks());
  constexpr int kUnseen = -2;
  BreadthFirst found;
  found.parent.assign(ranks, kUnseen);
  found.parent[root] = -1;
  found.order.reserve(ranks);
  found.order.push_back(root);
  // Stops when all ranks are found: so a dense graph costs its ranks, not its edges.
  for (size_t at = 0; at < found.order.size() && found.order.size() < ranks; ++at) {
    for (const Neighbour& next : graph.neighbours(found.order[at])) {
      if (found.parent[next.rank] != kUnseen) continue;
      found.parent[next.rank] = found.order[at];
      found.order.push_back(next.rank);
    }
  }
  return found;
}

std::vector<int> hops_from(const Topology& graph, int rank) {
  const BreadthFirst found = breadth_first(graph, rank);
  std::vector<int> hops(found.order.size(), 0);
  for (size_t at = 1; at < found.order.size(); ++at) {
    hops[found.order[at]] = hops[found.parent[found.order[at]]] + 1;
  }
  return hops;
}

int relay_diameter(const Topology& tree) {
  GV_CHECK(is_tree(tree));
  const int one_end = breadth_first(tree, 0).order.back();
  const int other_end = breadth_first(tree, one_end).order.back();
  return hops_from(tree, one_end)[other_end];
}

double mean_relay_delay(const Topology& tree) {
  GV_CHECK(is_tree(tree));
  return mean_relay_delay(breadth_first(tree, 0));
}

// An edge with s ranks on one side is on the path of 2 s (n - s) ordered pairs. Every ordered pair
// of different ranks has one hop without delay.
double mean_relay_delay(const BreadthFirst& found) {
  const auto n = static_cast<double>(found.order.size());
  std::vector<int> below(found.order.size(), 1);
  double hops = 0;  // a whole number, exact below 2^53
  for (size_t at = found.order.size(); at-- > 1;) {
    const int rank = found.order[at];
    hops += 2 * below[rank] * (n - below[rank]);
    below[found.parent[rank]] += below[rank];
  }
  return (hops - n * (n - 1)) / (n * n);
}

}  // namespace grapevine
