// Spanning trees of any graph, and those of the social graph that the RelaySum paper draws (Vogels
// et al., NeurIPS 2021, arXiv 2110.04175).
#include <algorithm>
#include <cmath>

#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE(
    "the spanning tree of any graph is a tree of its edges, with shortest paths to its root") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology whole = *make_topology(spec, ranks, 1);
    const int root = *rc::gen::inRange(0, ranks);
    const Topology tree = *make_topology("spanning:" + spec + "@" + std::to_string(root), ranks, 1);
    RC_ASSERT(is_tree(tree));
    RC_ASSERT(tree_count(tree) == 1);
    RC_ASSERT(hops_from(tree, root) == hops_from(whole, root));
    for (const Edge& edge : tree.edges()) {
      const auto of_whole = [&](const Edge& other) {
        return other.i == edge.i && other.j == edge.j;
      };
      RC_ASSERT(std::ranges::any_of(whole.edges(), of_whole));
      RC_ASSERT(edge.trees == 1);
    }
  }));
}

TEST_CASE(
    "without a root, the spanning tree is the one of the least mean delay, ties to the least") {
  for (const auto& [spec, ranks] : {std::pair<std::string, int>{"social", 32},
                                    {"ring", 9},
                                    {"torus", 12},
                                    {"erdos-renyi:0.2:5", 24},
                                    {"cliques", 10},
                                    {"star", 7},
                                    {"random-regular:3:8", 30}}) {
    INFO(spec);
    const auto rooted = [&](int root) {
      return graph("spanning:" + spec + "@" + std::to_string(root), ranks);
    };
    std::vector<double> delays;
    for (int root = 0; root < ranks; ++root)
      delays.push_back(mean_relay_delay(rooted(root)));
    const auto best = static_cast<int>(std::ranges::min_element(delays) - delays.begin());
    CHECK(ends_of(graph("spanning:" + spec, ranks)) == ends_of(rooted(best)));
    CHECK(mean_relay_delay(graph("spanning:" + spec, ranks)) == delays[static_cast<size_t>(best)]);
  }
}

TEST_CASE("a spanning tree can be asked of a file, of a tree, and of thousands of ranks") {
  const TextFile file("0 1 1\n1 2 1\n2 0 1\n");
  CHECK(graph("spanning:" + file.path(), 3).degree(0) == 2);
  CHECK(graph("spanning:" + file.path() + "@2", 3).degree(2) == 2);
  CHECK(mean_relay_delay(graph("spanning:spanning:ring@1@3", 8)) ==
        mean_relay_delay(graph("chain", 8)));
  CHECK(is_tree(graph("spanning:complete", 2000)));
  CHECK(graph("spanning:complete", 2000).degree(0) == 1999);
  CHECK(is_tree(graph("spanning:torus", 4096)));
  CHECK(is_tree(graph("spanning:random-regular", 100000)));
}

TEST_CASE("the social graph is that of the paper: 89 edges, diameter 4, degrees 2 to 14") {
  const Topology social = graph("social", 32);
  CHECK(social.edges().size() == 89);
  CHECK(diameter(social) == 4);
  std::vector<int> degrees;
  for (int rank = 0; rank < 32; ++rank)
    degrees.push_back(social.degree(rank));
  CHECK(degrees == std::vector{8, 7, 8, 7, 4, 4, 4, 3, 4,  4,  4,  6, 7, 8, 5, 2,
                               2, 2, 3, 3, 6, 4, 8, 8, 10, 14, 12, 5, 4, 6, 3, 3});
  for (const Edge& edge : social.edges()) {
    CHECK(edge.i < 18);   // a woman
    CHECK(edge.j >= 18);  // and an event
  }
}

TEST_CASE("the 32 spanning trees of the social graph have the paper's diameters and factors") {
  double least = 10, most = 0;
  int shortest = 100, longest = 0;
  for (int root = 0; root < 32; ++root) {
    const Topology tree = graph("spanning:social@" + std::to_string(root), 32);
    CHECK(tree.edges().size() == 31);
    const double factor = 1 + mean_relay_delay(tree);
    least = std::min(least, factor);
    most = std::max(most, factor);
    shortest = std::min(shortest, relay_diameter(tree));
    longest = std::max(longest, relay_diameter(tree));
  }
  CHECK(shortest == 5);
  CHECK(longest == 7);
  CHECK(std::abs(least - 2.875) < 5e-4);
  CHECK(std::abs(most - 3.828) < 5e-4);
  CHECK(1 + mean_relay_delay(graph("spanning:social", 32)) == least);
}
