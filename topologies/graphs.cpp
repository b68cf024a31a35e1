#include "topologies/graphs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/base/spec.hpp"

namespace grapevine {
namespace {

Result<Links> chain(const GraphRequest& request) {
  Links links;
  for (int i = 0; i + 1 < request.ranks; ++i)
    links.push_back({i, i + 1});
  return links;
}

Result<Links> ring(const GraphRequest& request) {
  Links links = *chain(request);
  if (request.ranks > 2) links.push_back({0, request.ranks - 1});
  return links;
}

Result<Links> star(const GraphRequest& request) {
  Links links;
  for (int i = 1; i < request.ranks; ++i)
    links.push_back({0, i});
  return links;
}

Result<Links> binary_tree(const GraphRequest& request) {
  Links links;
  for (int i = 1; i < request.ranks; ++i)
    links.push_back({(i - 1) / 2, i});
  return links;
}

void add_clique(Links& links, int first, int last) {
  for (int i = first; i < last; ++i) {
    for (int j = i + 1; j < last; ++j)
      links.push_back({i, j});
  }
}

Result<Links> cliques(const GraphRequest& request) {
  const int half = request.ranks / 2;
  if (const auto error = too_many(request, 0.25 * request.ranks * request.ranks, kMostDenseEdges))
    return *error;
  Links links;
  add_clique(links, 0, half);
  add_clique(links, half, request.ranks);
  if (half > 0) links.push_back({0, half});
  return links;
}

std::optional<Error> not_a_power_of_two(const GraphRequest& request) {
  const auto n = static_cast<unsigned>(request.ranks);
  if (std::has_single_bit(n)) {
    return too_many(request, 1.0 * n * static_cast<double>(std::bit_width(n)));
  }
  return refused(
      request, fmt::format("the number of ranks must be a power of two; the nearest are {} and {}",
                           std::bit_floor(n), std::bit_ceil(n)));
}

// Neighbours i +- 2^k. The reference lists both i + n/2 and i - n/2, which are the same rank.
Result<Links> exponential_with(const GraphRequest& request, int opposite_multiplicity) {
  if (const auto error = not_a_power_of_two(request)) return *error;
  const int n = request.ranks;
  Links links;
  for (int hop = 1; 2 * hop < n; hop *= 2) {
    for (int i = 0; i < n; ++i)
      links.push_back({i, (i + hop) % n});
  }
  for (int i = 0; i < n / 2; ++i)
    links.push_back({i, i + n / 2, opposite_multiplicity});
  return links;
}

Result<Links> exponential(const GraphRequest& request) { return exponential_with(request, 2); }
Result<Links> exponential_simple(const GraphRequest& request) {
  return exponential_with(request, 1);
}

Result<Links> hypercube(const GraphRequest& request) {
  if (const auto error = not_a_power_of_two(request)) return *error;
  Links links;
  for (int bit = 1; bit < request.ranks; bit *= 2) {
    for (int i = 0; i < request.ranks; ++i) {
      if ((i & bit) == 0) links.push_back({i, i | bit});
    }
  }
  return links;
}

int most_square_rows(int ranks) {
  int rows = static_cast<int>(std::sqrt(ranks));
  while (ranks % rows != 0)
    --rows;
  return rows;
}

// A circle of one rank has no edge; a circle of two has one.
int circle_edges(int length) { return length > 2 ? length : length - 1; }

Result<Links> torus(const GraphRequest& request) {
  const auto sides = torus_sides(request);
  if (!sides) return sides.error();
  const auto [height, width] = *sides;
  Links links;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const int here = row * width + column;
      if (column < circle_edges(width)) links.push_back({here, row * width + (column + 1) % width});
      if (row < circle_edges(height)) links.push_back({here, (row + 1) % height * width + column});
    }
  }
  return links;
}

constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

constexpr GraphKind kGraphKinds[] = {
    {"ring", "", 0, "each rank and the next, closed to a circle", ring},
    {"chain", "", 0, "each rank and the next", chain},
    {"star", "", 0, "rank 0 and each of the others", star},
    {"complete", "", 0, "each rank and each of the others", complete},
    {"exponential", "", 0, "i and i +- 2^k, as in the A2CiD2 paper: i +- n/2 counts twice",
     exponential},
    {"exponential-simple", "", 0, "i and i +- 2^k, every edge once", exponential_simple},
    {"torus", "[:ROWSxCOLUMNS]", 1, "a grid closed in both directions; the most square by default",
     torus},
    {"hypercube", "", 0, "ranks that differ in one bit", hypercube},
    {"binary-tree", "", 0, "i and its parent (i - 1) / 2", binary_tree},
    {"relay-tree", "", 0, "i and its parent i / 2, so rank 0 has one child: RelaySum's tree",
     relay_tree},
    {"relay-tree-reversed", "", 0, "the same with the ranks in reverse order", relay_tree_reversed},
    {"double-binary-trees", "", 0, "the two relay trees together, for half of the vector each",
     double_binary_trees},
    {"three-tree", "", 0, "a tree of ranks with three edges each", three_tree},
    {"random-regular", "[:DEGREE[:SEED]]", 2, "random, every rank of the same degree (3)",
     random_regular},
    {"erdos-renyi", "[:PROBABILITY[:SEED]]", 2, "every edge by chance (2 ln n / n), connected",
     erdos_renyi},
    {"cliques", "", 0, "two complete halves joined by one edge", cliques},
    {"social", "", 0, "Davis' southern women and their events, 32 ranks", social},
    {"spanning", ":GRAPH[@ROOT]", kAnyNumber,
     "the breadth-first tree of any graph, from its best root", spanning},
};

}  // namespace

std::span<const GraphKind> graph_kinds() { return kGraphKinds; }

GraphRequest request_of(const std::string& spec, int ranks) {
  GraphRequest request{spec, ranks, {}};
  for (const std::string_view argument : Spec(spec).parts(':'))
    request.arguments.emplace_back(argument);
  return request;
}

Result<Sides> torus_sides(const GraphRequest& request) {
  const int n = request.ranks, rows = most_square_rows(n);
  const std::string square = fmt::format("{}x{}", rows, n / rows);
  if (request.arguments.empty()) {
    if (rows > 1 || n <= 3) return Sides{rows, n / rows};
    return refused(request, fmt::format("a prime number of ranks makes no grid; accepted: a "
                                        "product of two sides, or torus:{}, which is a ring",
                                        square));
  }
  const std::string& sides = request.arguments[0];
  const size_t cross = std::min(sides.find('x'), sides.size());
  const auto r = number_of<int64_t>(sides.substr(0, cross));
  const auto c = number_of<int64_t>(sides.substr(std::min(cross + 1, sides.size())));
  if (r && c && *r >= 1 && *r <= n && *c >= 1 && *c <= n && *r * *c == n) {
    return Sides{static_cast<int>(*r), static_cast<int>(*c)};
  }
  return refused(
      request,
      fmt::format(
          "the sides {} do not make {}; accepted: ROWSxCOLUMNS with that product, such as {}",
          in_quotes(sides), n, square));
}

Result<Links> complete(const GraphRequest& request) {
  if (const auto error =
          too_many(request, 0.5 * request.ranks * (request.ranks - 1.0), kMostDenseEdges)) {
    return *error;
  }
  Links links;
  add_clique(links, 0, request.ranks);
  return links;
}

Error refused(const GraphRequest& request, const std::string& complaint) {
  return user_error(fmt::format("topology {} with {}{}{}", in_quotes(request.spec), request.ranks,
                                request.ranks == 1 ? " rank: " : " ranks: ", complaint));
}

std::optional<Error> too_many(const GraphRequest& request, double edges, int64_t most) {
  if (edges <= static_cast<double>(most)) return std::nullopt;
  return refused(request,
                 fmt::format("about {} edges; at most {} are accepted", shown(edges), most));
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMostShown = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kMostShown)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result + (text.size() > kMostShown ? "...'" : "'");
}

}  // namespace grapevine
