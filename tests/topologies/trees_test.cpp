// Trees: the figures of the RelaySum paper about its graphs (Vogels et al., NeurIPS 2021, arXiv
// 2110.04175).
#include "topologies/trees.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/random.hpp"
#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

double brute_force_delay(const Topology& tree) {
  double sum = 0;
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    for (const int hops : hops_from(tree, rank))
      sum += std::max(hops - 1, 0);
  }
  return sum / tree.ranks() / tree.ranks();
}

Topology random_tree(int ranks, uint64_t index) {
  Random random(11, 0, Purpose::test, index);
  std::vector<Edge> edges;
  for (int i = 1; i < ranks; ++i) {
    const int recent = static_cast<int>(1 + random.below(8));  // long arms and wide stars
    edges.push_back({std::max(0, i - recent), i, 1});
  }
  return *Topology::from_edges(ranks, std::move(edges), "random tree");
}

}  // namespace

TEST_CASE("the learning-rate factors of chain, tree and star are those of the paper") {
  struct Row {
    int n;
    double chain, tree, star;
  };
  for (const Row& row :
       {Row{4, 1.5, 1.375, 1.375}, Row{8, 2.75, 2.15625, 1.65625},
        Row{16, 5.375, 3.320313, 1.820313}, Row{32, 10.6875, 4.783203, 1.908203}}) {
    INFO(row.n << " ranks");
    const auto factor = [&](const std::string& spec) {
      return 1 + mean_relay_delay(graph(spec, row.n));
    };
    CHECK(std::abs(factor("chain") - row.chain) < 1e-6);
    CHECK(std::abs(factor("relay-tree") - row.tree) < 1e-6);
    CHECK(std::abs(factor("relay-tree-reversed") - row.tree) < 1e-6);
    CHECK(std::abs(factor("star") - row.star) < 1e-6);
  }
  for (const int n : {1, 2, 3, 5, 100, 100000}) {
    const double closed = (n - 1.0) * (n - 2.0) / (3.0 * n);
    CHECK(mean_relay_delay(graph("chain", n)) == Approx(closed).epsilon(1e-13).margin(0));
  }
}

TEST_CASE("what rank 5 says arrives after the hops of the delivery test, less one") {
  const auto arrivals = [](const std::string& spec) {
    std::vector<int> steps = hops_from(graph(spec, 16), 5);
    for (int& step : steps)
      step = std::max(step - 1, 0);
    return steps;
  };
  CHECK(arrivals("chain") == std::vector{4, 3, 2, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(arrivals("relay-tree") == std::vector{2, 1, 0, 2, 1, 0, 3, 3, 2, 2, 0, 0, 4, 4, 4, 4});
}

TEST_CASE("the mean relay delay and the diameter of a tree are those of all pairs") {
  for (uint64_t index = 0; index < 100; ++index) {
    const Topology tree = random_tree(1 + static_cast<int>(index), index);
    CHECK(mean_relay_delay(tree) == Approx(brute_force_delay(tree)).epsilon(1e-14).margin(0));
    CHECK(relay_diameter(tree) == diameter(tree));
  }
  CHECK(relay_diameter(graph("chain", 16)) == 15);
  CHECK(relay_diameter(graph("relay-tree", 16)) == 6);
  CHECK(relay_diameter(graph("star", 16)) == 2);
}

TEST_CASE("double binary trees are two trees, one the reverse of the other, in one graph") {
  for (const int n : {2, 3, 5, 16, 33, 64}) {
    INFO(n << " ranks");
    const Topology both = graph("double-binary-trees", n);
    CHECK(tree_count(both) == 2);
    CHECK(check_trees(both));
    const Topology trees[] = {tree_of(both, 0), tree_of(both, 1)};
    const Topology one = graph("relay-tree", n), other = graph("relay-tree-reversed", n);
    for (int rank = 0; rank < n; ++rank) {
      CHECK(hops_from(trees[0], rank) == hops_from(one, rank));
      CHECK(hops_from(trees[1], rank) == hops_from(other, rank));
      CHECK(trees[0].degree(rank) <= 3);
      CHECK(trees[0].degree(rank) == trees[1].degree(n - 1 - rank));
    }
    // Half of the vector over each: the bytes of a ring at most.
    CHECK(trees[0].edges().size() + trees[1].edges().size() == 2 * static_cast<size_t>(n - 1));
    CHECK(mean_relay_delay(trees[0]) == mean_relay_delay(trees[1]));
  }
}

TEST_CASE("with a power of two of ranks, the two trees give a rank four neighbours at most") {
  for (const int n : {4, 8, 16, 32, 64, 256}) {
    const Topology both = graph("double-binary-trees", n);
    const Topology one = tree_of(both, 0), other = tree_of(both, 1);
    int most = 0;
    for (int rank = 0; rank < n; ++rank)
      most = std::max(most, one.degree(rank) + other.degree(rank));
    INFO(n << " ranks");
    CHECK(most == 4);  // so 2 per tree, on half of the vector each: a rank of a ring
  }
}

TEST_CASE("an edge that both trees have is in both") {
  CHECK(graph("double-binary-trees", 2).edges()[0].trees == 3);
  const Topology three = graph("double-binary-trees", 3);  // 0 - 1 - 2 with 1 - 2 and 1 - 0
  REQUIRE(three.edges().size() == 2);
  CHECK(three.edges()[0].trees == 3);
  CHECK(three.edges()[1].trees == 3);
  CHECK(tree_of(three, 1).edges().size() == 2);
  CHECK(tree_count(graph("double-binary-trees", 1)) == 1);
}

TEST_CASE("a graph with a circle is no tree, and the refusal proposes its spanning tree") {
  const auto complaint = [](const Topology& made) {
    const Status status = check_trees(made);
    return status ? "accepted" : status.error().message;
  };
  CHECK(complaint(graph("ring", 8)) ==
        "topology 'ring' with 8 ranks: not a tree: it has 8 edges, a tree of these ranks has 7; "
        "accepted: a tree, such as 'spanning:ring', or double-binary-trees");
  for (const std::string spec : {"chain", "star", "binary-tree", "relay-tree", "three-tree",
                                 "relay-tree-reversed", "double-binary-trees", "spanning:ring"}) {
    CHECK(complaint(graph(spec, 12)) == "accepted");
  }
  CHECK(complaint(graph("chain", 1)) == "accepted");
  CHECK(complaint(graph("ring", 2)) == "accepted");
  for (const std::string spec : {"torus", "complete", "cliques", "exponential", "hypercube"}) {
    CHECK(tree_count(graph(spec, 16)) == 0);
  }
}

TEST_CASE("masks that do not make trees are not trees") {
  const auto count = [](std::vector<Edge> edges) {
    return tree_count(*Topology::from_edges(4, std::move(edges), "mine"));
  };
  CHECK(count({{0, 1, 1, 1, 3}, {1, 2, 1, 1, 3}, {2, 3, 1, 1, 3}}) == 2);
  CHECK(count({{0, 1, 1, 1, 1}, {1, 2, 1, 1, 3}, {2, 3, 1, 1, 3}}) == 0);
  CHECK(count({{0, 1, 1, 1, 3}, {1, 2, 1, 1, 3}, {0, 2, 1, 1, 1}, {2, 3, 1, 1, 2}}) == 0);
  CHECK(
      count(
          {{0, 1, 1, 1, 1}, {1, 2, 1, 1, 1}, {2, 3, 1, 1, 5}, {0, 3, 1, 1, 4}, {0, 2, 1, 1, 4}}) ==
      0);  // no tree 1
}

TEST_CASE("an edge of one of several trees keeps its rate") {
  const Topology both = graph("double-binary-trees", 16, 3.0);
  const Topology second = tree_of(both, 1);
  for (const Edge& edge : second.edges()) {
    const auto same = [&](const Edge& other) { return other.i == edge.i && other.j == edge.j; };
    CHECK(edge.rate == std::ranges::find_if(both.edges(), same)->rate);
  }
  CHECK(is_tree(second));
  CHECK(tree_count(second) == 1);
  CHECK(tree_of(graph("chain", 4), 0).name() == "chain");
}
