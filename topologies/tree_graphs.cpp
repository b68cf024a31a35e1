// The graphs of the RelaySum paper (Vogels et al., NeurIPS 2021, arXiv:2110.04175): its trees, the
// social network, and the spanning tree of any graph.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"
#include "topologies/trees.hpp"

namespace grapevine {
namespace {

// The events (1 to 14, in hexadecimal) that each of 18 women attended: Davis, Gardner, Gardner,
// "Deep South", 1941. Women are ranks 0 to 17, events ranks 18 to 31.
constexpr std::string_view kAttended[] = {
    "12345689", "1235678", "23456789", "1345678", "3457",     "3568",  "5678", "689", "5789",
    "789C",     "89AC",    "89ACDE",   "789ACDE", "679ABCDE", "78ABC", "89",   "9B",  "9B"};
constexpr int kWomen = 18, kEvents = 14;

// Bound on roots times ranks: half a second. Above 4096 ranks, only evenly spaced roots are tried.
constexpr int64_t kMostVisits = int64_t{1} << 24;

BreadthFirst best_tree(const Topology& graph) {
  // A tree is its own spanning tree, from every root.
  if (is_tree(graph)) return breadth_first(graph, 0);
  const int64_t n = graph.ranks(), roots = std::clamp<int64_t>(kMostVisits / n, 1, n);
  BreadthFirst best = breadth_first(graph, 0);
  double least = mean_relay_delay(best);
  for (int64_t k = 1; k < roots; ++k) {
    BreadthFirst found = breadth_first(graph, static_cast<int>(k * n / roots));
    const double delay = mean_relay_delay(found);
    if (delay >= least) continue;
    least = delay;
    best = std::move(found);
  }
  return best;
}

Links halved(int ranks) {
  Links links;
  for (int i = 1; i < ranks; ++i)
    links.push_back({i / 2, i});
  return links;
}

Links reversed(Links links, int ranks) {
  for (Link& link : links)
    link = {ranks - 1 - link.j, ranks - 1 - link.i};
  return links;
}

struct SpanningSpec {
  std::string graph;
  std::optional<std::string> root;
};

// The root follows the last '@'. If a '/' or '.' comes after it, the '@' is part of a file name.
SpanningSpec spanning_spec(const std::string& spec) {
  const std::string graph(Spec(spec).value.value_or(""));
  const size_t at = graph.rfind('@');
  if (at == graph.npos || graph.find_first_of("/.", at) != graph.npos) return {graph, {}};
  return {graph.substr(0, at), graph.substr(at + 1)};
}

}  // namespace

Result<Links> relay_tree(const GraphRequest& request) { return halved(request.ranks); }
Result<Links> relay_tree_reversed(const GraphRequest& request) {
  return reversed(halved(request.ranks), request.ranks);
}

Result<Links> double_binary_trees(const GraphRequest& request) {
  const Links halves = halved(request.ranks);
  std::map<std::pair<int, int>, uint8_t> trees;
  for (const Link& link : halves)
    trees[{link.i, link.j}] |= 1;
  for (const Link& link : reversed(halves, request.ranks))
    trees[{link.i, link.j}] |= 2;
  Links links;
  for (const auto& [ends, mask] : trees)
    links.push_back({ends.first, ends.second, 1, mask});
  return links;
}

// Rank 0 has the children 1, 2, 3; any other i has 2 i + 2 and 2 i + 3.
Result<Links> three_tree(const GraphRequest& request) {
  Links links;
  for (int i = 1; i < request.ranks; ++i)
    links.push_back({std::max(i - 2, 0) / 2, i});
  return links;
}

Result<Links> social(const GraphRequest& request) {
  if (request.ranks != kWomen + kEvents) {
    return refused(request, "these are 18 women and 14 events; accepted: 32 ranks");
  }
  constexpr std::string_view kDigits = "123456789ABCDE";
  Links links;
  for (int woman = 0; woman < kWomen; ++woman) {
    for (const char event : kAttended[woman]) {
      links.push_back({woman, kWomen + static_cast<int>(kDigits.find(event))});
    }
  }
  return links;
}

Result<Links> spanning(const GraphRequest& request) {
  const SpanningSpec spec = spanning_spec(request.spec);
  if (spec.graph.empty()) {
    return refused(request,
                   "no graph to span; accepted: spanning:GRAPH[@ROOT], such as "
                   "spanning:ring or spanning:ring@0");
  }
  const auto root = spec.root ? number_of<int64_t>(*spec.root) : 0;
  if (!root || *root < 0 || *root >= request.ranks) {
    return refused(request, fmt::format("the root {} is not a rank; accepted: 0 to {}",
                                        in_quotes(*spec.root), request.ranks - 1));
  }
  const auto graph = make_topology(spec.graph, request.ranks, 1);
  if (!graph) return graph.error();
  const BreadthFirst tree =
      spec.root ? breadth_first(*graph, static_cast<int>(*root)) : best_tree(*graph);
  Links links;
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (tree.parent[rank] >= 0) links.push_back({tree.parent[rank], rank});
  }
  return links;
}

}  // namespace grapevine
