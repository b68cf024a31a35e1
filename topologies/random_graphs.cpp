// The random graphs: random-regular and erdos-renyi. Attempt a of seed s draws from the random
// stream (s, purpose graph, a), so the graph is a pure function of the spec and the ranks. If an
// attempt is not connected, the next one is tried.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "kernels/base/random.hpp"
#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kAttempts = 100;

bool connected(int ranks, const Links& links) {
  std::vector<int> parent(static_cast<size_t>(ranks));
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  };
  int parts = ranks;
  for (const Link& link : links) {
    const int a = root(link.i), b = root(link.j);
    if (a == b) continue;
    parent[a] = b;
    --parts;
  }
  return parts == 1;
}

uint64_t key(int i, int j) {
  return static_cast<uint64_t>(std::min(i, j)) << 32 | static_cast<uint32_t>(std::max(i, j));
}

// Joins the free ends of all ranks at random. Redraws pairs that would make a loop or a double edge
// (Steger and Wormald, "Generating random regular graphs quickly", 1999). Empty: many draws in a
// row have added no edge.
std::optional<Links> pair_ends(int ranks, int degree, Random& random) {
  std::vector<int> ends;
  for (int i = 0; i < ranks; ++i)
    ends.insert(ends.end(), static_cast<size_t>(degree), i);
  std::unordered_set<uint64_t> taken;
  Links links;
  for (int fruitless = 0; !ends.empty();) {
    shuffle(ends.begin(), static_cast<uint32_t>(ends.size()), random);
    std::vector<int> left;
    for (size_t k = 0; k < ends.size(); k += 2) {
      const int i = ends[k], j = ends[k + 1];
      if (i != j && taken.insert(key(i, j)).second) {
        links.push_back({i, j});
      } else {
        left.insert(left.end(), {i, j});
      }
    }
    fruitless = left.size() == ends.size() ? fruitless + 1 : 0;
    if (fruitless > 20) return std::nullopt;
    ends = std::move(left);
  }
  return links;
}

Links complement(int ranks, const Links& links) {
  std::unordered_set<uint64_t> taken;
  for (const Link& link : links)
    taken.insert(key(link.i, link.j));
  Links rest;
  for (int i = 0; i < ranks; ++i) {
    for (int j = i + 1; j < ranks; ++j) {
      if (!taken.contains(key(i, j))) rest.push_back({i, j});
    }
  }
  return rest;
}

std::optional<Links> draw_regular(int ranks, int degree, Random& random) {
  if (degree == 2) {  // it must be connected, so draw one circle
    std::vector<int> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    shuffle(order.begin(), static_cast<uint32_t>(ranks), random);
    Links circle;
    for (size_t k = 0; k < order.size(); ++k) {
      circle.push_back({order[k], order[(k + 1) % order.size()]});
    }
    return circle;
  }
  const int missing = ranks - 1 - degree;  // a dense graph is the complement of a sparse one
  if (missing >= degree) return pair_ends(ranks, degree, random);
  const auto sparse = pair_ends(ranks, missing, random);
  if (!sparse) return std::nullopt;
  return complement(ranks, *sparse);
}

// Draws every edge with probability p: jumps over absent edges (Batagelj and Brandes, 2005).
Links draw_erdos_renyi(int ranks, double p, Random& random) {
  const int64_t last = int64_t{ranks} * (ranks - 1) / 2;
  const double scale = -1 / std::log1p(-p);
  Links links;
  int row = 1;  // pair k is (row, k - row (row - 1) / 2), the lower triangle row by row
  for (int64_t k = -1;;) {
    const double jump = std::floor(random.exponential() * scale);
    if (jump >= static_cast<double>(last - k - 1)) return links;
    k += 1 + static_cast<int64_t>(jump);
    while (int64_t{row} * (row + 1) / 2 <= k)
      ++row;
    links.push_back({static_cast<int>(k - int64_t{row} * (row - 1) / 2), row});
  }
}

Result<uint64_t> seed_of(const GraphRequest& request) {
  if (request.arguments.size() < 2) return uint64_t{1};
  const auto seed = number_of<uint64_t>(request.arguments[1]);
  if (seed) return *seed;
  return refused(request, fmt::format("the seed {} is not a whole number from 0 to 2^64 - 1",
                                      in_quotes(request.arguments[1])));
}

}  // namespace

Result<Links> random_regular(const GraphRequest& request) {
  const std::string given = request.arguments.empty() ? "3" : request.arguments[0];
  const auto degree = number_of<int64_t>(given);
  const int n = request.ranks;
  if (!degree || *degree < 1 || *degree >= n) {
    return refused(request, fmt::format("the degree {} is not a whole number from 1 to ranks - 1",
                                        in_quotes(given)));
  }
  if (*degree * n % 2 != 0) {
    return refused(
        request,
        fmt::format("degree {} times {} ranks is odd; one of the two must be even", given, n));
  }
  if (*degree == 1 && n > 2) {
    return refused(request, "degree 1 joins pairs only; at least 2 is needed");
  }
  if (const auto error = too_many(request, 0.5 * static_cast<double>(*degree) * n)) return *error;
  const auto seed = seed_of(request);
  if (!seed) return seed.error();
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    Random random(*seed, 0, Purpose::graph, attempt);
    auto links = draw_regular(n, static_cast<int>(*degree), random);
    if (links && connected(n, *links)) return std::move(*links);
  }
  return refused(
      request, fmt::format("no connected graph in {} attempts; try another seed or a larger degree",
                           kAttempts));
}

Result<Links> erdos_renyi(const GraphRequest& request) {
  const double n = request.ranks;
  double p = n < 3 ? 1 : std::min(1.0, 2 * std::log(n) / n);
  if (!request.arguments.empty()) {
    p = number_of<double>(request.arguments[0]).value_or(std::numeric_limits<double>::quiet_NaN());
    if (!(p > 0 && p <= 1)) {
      return refused(request,
                     fmt::format("the probability {} is not a number above 0 and at most 1",
                                 in_quotes(request.arguments[0])));
    }
  }
  const int64_t most = p < 0.1 ? kMostEdges : kMostDenseEdges;
  if (const auto error = too_many(request, 0.5 * p * n * (n - 1), most)) return *error;
  const auto seed = seed_of(request);
  if (!seed) return seed.error();
  if (p == 1) return complete(request);
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    Random random(*seed, 0, Purpose::graph, attempt);
    Links links = draw_erdos_renyi(request.ranks, p, random);
    if (connected(request.ranks, links)) return links;
  }
  return refused(request, fmt::format("no connected graph in {} attempts with probability {}; "
                                      "graphs of this size are mostly connected above ln(n)/n = {}",
                                      kAttempts, shown(p), shown(std::log(n) / n)));
}

}  // namespace grapevine
