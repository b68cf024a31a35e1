#include "topologies/topology.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <tuple>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/registry.hpp"
#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"

namespace grapevine {
namespace {

std::string ends(const Edge& edge) { return fmt::format("edge {} {}", edge.i, edge.j); }

std::string edges_complaint(int ranks, const std::vector<Edge>& sorted) {
  for (size_t e = 0; e < sorted.size(); ++e) {
    std::string complaint = edge_complaint(sorted[e], ranks);
    if (!complaint.empty()) return complaint;
    if (e > 0 && sorted[e - 1].i == sorted[e].i && sorted[e - 1].j == sorted[e].j) {
      return ends(sorted[e]) + " is given twice; every edge must be given once";
    }
  }
  return {};
}

/// The smallest rank that cannot be reached from rank 0; `ranks`: all can.
int unreached(const Topology& graph) {
  std::vector<char> seen(static_cast<size_t>(graph.ranks()), 0);
  std::vector<int> open{0};
  seen[0] = 1;
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    for (const Neighbour& next : graph.neighbours(rank)) {
      if (std::exchange(seen[next.rank], 1) == 0) open.push_back(next.rank);
    }
  }
  return static_cast<int>(std::ranges::find(seen, 0) - seen.begin());
}

std::vector<int> listed_degrees(const Topology& graph) {
  std::vector<int> degrees(static_cast<size_t>(graph.ranks()), 0);
  for (const Edge& edge : graph.edges()) {
    degrees[edge.i] += edge.multiplicity;
    degrees[edge.j] += edge.multiplicity;
  }
  return degrees;
}

Registry<TopologyKind>& registered() {
  static Registry<TopologyKind> kinds;
  return kinds;
}

const GraphKind* built_in(std::string_view name) {
  const auto at = std::ranges::find(graph_kinds(), name, &GraphKind::name);
  return at == graph_kinds().end() ? nullptr : &*at;
}

bool is_name(std::string_view name) { return built_in(name) || registered().find(name); }

Result<EdgeList> edges_of_kind(const TopologyKind& kind, const GraphRequest& request) {
  if (request.arguments.size() > kind.most_arguments)
    return refused(request,
                   fmt::format("too many arguments; accepted: {}{}", kind.name, kind.arguments));
  EdgeList list;
  try {
    auto edges = kind.make(request.ranks, request.arguments);
    if (!edges) return refused(request, edges.error().message);
    list.edges = std::move(*edges);
  } catch (const std::exception& e) {
    return refused(request, e.what());
  }
  for (Edge& edge : list.edges)
    edge.rate = 1;
  return list;
}

std::string accepted_names() {
  std::string names;
  for (const GraphKind& kind : graph_kinds())
    names += std::string(kind.name) + ", ";
  registered().for_each([&names](const TopologyKind& kind) { names += kind.name + ", "; });
  return names + "or a file (a name with '/' or '.')";
}

Result<EdgeList> edges_of_kind(const GraphKind& kind, const GraphRequest& request) {
  if (request.arguments.size() > kind.most_arguments) {
    return refused(request,
                   fmt::format("too many arguments; accepted: {}{}", kind.name, kind.arguments));
  }
  const auto links = kind.make(request);
  if (!links) return links.error();
  EdgeList list;
  list.edges.reserve(links->size());
  for (const Link& link : *links) {
    list.edges.push_back(
        {std::min(link.i, link.j), std::max(link.i, link.j), 1, link.multiplicity, link.trees});
  }
  return list;
}

// The colours of one rank's edges, as words of 64 bits; only nonempty words are stored.
struct UsedColours {
  std::vector<std::pair<int, uint64_t>> words;  // ascending by first member

  void add(int colour) {
    const auto at =
        std::ranges::lower_bound(words, colour / 64, {}, &std::pair<int, uint64_t>::first);
    const uint64_t bit = uint64_t{1} << colour % 64;
    if (at != words.end() && at->first == colour / 64) {
      at->second |= bit;
    } else {
      words.insert(at, {colour / 64, bit});
    }
  }
};

int least_unused(const UsedColours& a, const UsedColours& b) {
  auto in_a = a.words.begin();
  auto in_b = b.words.begin();
  for (int word = 0;; ++word) {
    uint64_t used = 0;
    if (in_a != a.words.end() && in_a->first == word) used |= in_a++->second;
    if (in_b != b.words.end() && in_b->first == word) used |= in_b++->second;
    if (~used != 0) return 64 * word + std::countr_one(used);
  }
}

}  // namespace

std::string edge_complaint(const Edge& edge, int ranks) {
  const int highest = std::max(edge.i, edge.j), lowest = std::min(edge.i, edge.j);
  if (lowest < 0 || highest >= ranks) {
    return fmt::format("{} names rank {}; accepted: 0 to {}", ends(edge),
                       lowest < 0 ? lowest : highest, ranks - 1);
  }
  if (edge.i == edge.j) return ends(edge) + " joins a rank to itself; two ranks are needed";
  if (!(edge.rate > 0) || !std::isfinite(edge.rate)) {
    return fmt::format("{} has rate {}; it must be positive and finite", ends(edge),
                       shown(edge.rate));
  }
  if (edge.multiplicity < 1) {
    return fmt::format("{} has multiplicity {}; it must be at least 1", ends(edge),
                       edge.multiplicity);
  }
  if (edge.trees == 0) return ends(edge) + " belongs to no tree; its mask must be at least 1";
  return {};
}

Result<Topology> Topology::from_edges(int ranks, std::vector<Edge> edges, std::string name) {
  const GraphRequest request{name, ranks, {}};
  if (ranks < 1) return refused(request, "at least 1 is needed");
  for (Edge& edge : edges) {
    if (edge.i > edge.j) std::swap(edge.i, edge.j);
  }
  std::ranges::sort(edges, {}, [](const Edge& edge) { return std::tuple(edge.i, edge.j); });
  const std::string complaint = edges_complaint(ranks, edges);
  if (!complaint.empty()) return refused(request, complaint);

  Topology graph;
  graph.ranks_ = ranks;
  graph.rates_given_ = true;
  graph.name_ = std::move(name);
  graph.first_.assign(static_cast<size_t>(ranks) + 1, 0);
  for (const Edge& edge : edges) {
    ++graph.first_[edge.i + 1];
    ++graph.first_[edge.j + 1];
  }
  for (int k = 0; k < ranks; ++k)
    graph.first_[k + 1] += graph.first_[k];
  graph.neighbour_.resize(2 * edges.size());
  std::vector<int> next(graph.first_.begin(), graph.first_.end() - 1);
  const int count = static_cast<int>(edges.size());
  for (int e = 0; e < count; ++e)
    graph.neighbour_[next[edges[e].j]++] = {edges[e].i, e};
  for (int e = 0; e < count; ++e)
    graph.neighbour_[next[edges[e].i]++] = {edges[e].j, e};
  graph.edges_ = std::move(edges);

  const int lost = unreached(graph);
  if (lost < ranks) {
    return refused(
        request,
        fmt::format("not connected: rank {} cannot be reached from rank 0; every rank must be",
                    lost));
  }
  return graph;
}

std::span<const Neighbour> Topology::neighbours(int rank) const {
  GV_CHECK(rank >= 0);
  GV_CHECK(rank < ranks_);
  return std::span(neighbour_).subspan(first_[rank], first_[rank + 1] - first_[rank]);
}

Status register_topology(TopologyKind kind) {
  if (!kind.make) return user_error("a graph without make cannot be registered");
  const bool taken = built_in(kind.name) != nullptr;
  return registered().add("topology", std::move(kind), taken);
}

bool names_edge_file(const std::string& spec) {
  const Spec given(spec);
  if (given.name == "spanning" && given.value) return names_edge_file(std::string(*given.value));
  return !is_name(given.name) && spec.find_first_of("/.") != spec.npos;
}

Result<Topology> make_topology(const std::string& spec, int ranks, double rate) {
  const GraphRequest request = request_of(spec, ranks);
  if (ranks < 1) return refused(request, "at least 1 is needed");
  if (ranks > kMostRanks) return refused(request, fmt::format("at most {}", kMostRanks));
  if (!(rate > 0) || !std::isfinite(rate)) {
    return refused(
        request,
        fmt::format("rate {} exchanges per rank and unit of time; it must be positive and finite",
                    shown(rate)));
  }
  const GraphKind* kind = built_in(Spec(spec).name);
  const TopologyKind* added = kind != nullptr ? nullptr : registered().find(Spec(spec).name);
  if (kind == nullptr && added == nullptr && !names_edge_file(spec)) {
    return refused(request, "unknown graph; accepted: " + accepted_names());
  }
  auto list = kind != nullptr    ? edges_of_kind(*kind, request)
              : added != nullptr ? edges_of_kind(*added, request)
                                 : read_edge_file(spec, ranks);
  if (!list) return list.error();
  auto graph = Topology::from_edges(ranks, std::move(list->edges), spec);
  if (!graph || list->rates_given) return graph;
  graph->rates_given_ = false;
  const std::vector<double> equal(static_cast<size_t>(ranks), 1.0);
  const std::vector<double> rates = wanted_rates(*graph, rate, equal);
  for (size_t e = 0; e < rates.size(); ++e)
    graph->edges_[e].rate = rates[e];
  return graph;
}

std::string topology_specs() {
  std::string text;
  const auto add = [&](const std::string& spec, const std::string& sentence) {
    constexpr size_t kColumn = 34;
    text += fmt::format("{}{}{}\n", spec,
                        std::string(kColumn - std::min(kColumn - 1, spec.size()), ' '), sentence);
  };
  for (const GraphKind& kind : graph_kinds()) {
    add(std::string(kind.name) + kind.arguments, kind.sentence);
  }
  registered().for_each(
      [&add](const TopologyKind& kind) { add(kind.name + kind.arguments, kind.sentence); });
  add("FILE", "lines `i j rate` or `i j`, # comments; the name contains '/' or '.'");
  return text;
}

std::vector<double> wanted_rates(const Topology& graph, double r,
                                 std::span<const double> gradient_rates) {
  GV_CHECK(gradient_rates.size() == static_cast<size_t>(graph.ranks()));
  std::vector<double> rates;
  rates.reserve(graph.edges().size());
  const std::vector<int> degrees = listed_degrees(graph);
  for (const Edge& edge : graph.edges()) {
    const double share =
        gradient_rates[edge.i] / degrees[edge.i] + gradient_rates[edge.j] / degrees[edge.j];
    rates.push_back(graph.rates_given() ? edge.rate : edge.multiplicity * r / 2 * share);
  }
  return rates;
}

std::vector<int> edge_colouring(const Topology& graph) {
  std::vector<UsedColours> used(static_cast<size_t>(graph.ranks()));
  std::vector<int> colours;
  colours.reserve(graph.edges().size());
  for (const Edge& edge : graph.edges()) {
    colours.push_back(least_unused(used[edge.i], used[edge.j]));
    used[edge.i].add(colours.back());
    used[edge.j].add(colours.back());
  }
  return colours;
}

}  // namespace grapevine
