#include <algorithm>
#include <numeric>
#include <set>

#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

bool same(const Topology& a, const Topology& b) {
  const auto equal = [](const Edge& p, const Edge& q) {
    return p.i == q.i && p.j == q.j && p.rate == q.rate && p.multiplicity == q.multiplicity &&
           p.trees == q.trees;
  };
  return a.ranks() == b.ranks() && std::ranges::equal(a.edges(), b.edges(), equal);
}

std::set<int> degrees_of(const Topology& graph) {
  std::set<int> degrees;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    degrees.insert(graph.degree(rank));
  return degrees;
}

double total_rate(const Topology& graph) {
  double sum = 0;
  for (const Edge& edge : graph.edges())
    sum += edge.rate;
  return sum;
}

}  // namespace

TEST_CASE("the named graphs have the edges of their definitions") {
  CHECK(ends_of(graph("ring", 5)) == Ends{{0, 1}, {0, 4}, {1, 2}, {2, 3}, {3, 4}});
  CHECK(ends_of(graph("chain", 4)) == Ends{{0, 1}, {1, 2}, {2, 3}});
  CHECK(ends_of(graph("star", 4)) == Ends{{0, 1}, {0, 2}, {0, 3}});
  CHECK(ends_of(graph("complete", 4)) == Ends{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}});
  CHECK(ends_of(graph("binary-tree", 6)) == Ends{{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 5}});
  CHECK(ends_of(graph("hypercube", 4)) == Ends{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  CHECK(ends_of(graph("cliques", 5)) == Ends{{0, 1}, {0, 2}, {2, 3}, {2, 4}, {3, 4}});
  CHECK(ends_of(graph("relay-tree", 6)) == Ends{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {2, 5}});
  CHECK(ends_of(graph("relay-tree-reversed", 6)) == Ends{{0, 3}, {1, 3}, {2, 4}, {3, 4}, {4, 5}});
  CHECK(ends_of(graph("three-tree", 9)) ==
        Ends{{0, 1}, {0, 2}, {0, 3}, {1, 4}, {1, 5}, {2, 6}, {2, 7}, {3, 8}});
  CHECK(ends_of(graph("torus:3x3", 9)).size() == 18);
  CHECK(degrees_of(graph("torus", 12)) == std::set{4});
  CHECK(degrees_of(graph("exponential-simple", 16)) == std::set{7});
  CHECK(degrees_of(graph("random-regular:5:3", 30)) == std::set{5});
  CHECK(degrees_of(graph("random-regular:26:3", 30)) == std::set{26});
  CHECK(degrees_of(graph("random-regular:2:3", 9)) == std::set{2});
}

TEST_CASE("the smallest graphs are sane: one rank has no edge, two ranks have one") {
  for (const std::string spec :
       {"ring", "chain", "star", "complete", "exponential", "hypercube", "exponential-simple",
        "torus", "binary-tree", "erdos-renyi", "cliques", "relay-tree", "relay-tree-reversed",
        "three-tree", "double-binary-trees", "spanning:ring", "spanning:complete@0"}) {
    INFO(spec);
    CHECK(ends_of(graph(spec, 1)) == Ends{});
    CHECK(graph(spec, 1).neighbours(0).empty());
    CHECK(ends_of(graph(spec, 2)) == Ends{{0, 1}});
    CHECK(graph(spec, 2, 3.0).edges()[0].rate == 3.0);
  }
  CHECK(ends_of(graph("ring", 3)) == ends_of(graph("complete", 3)));
  CHECK(ends_of(graph("torus", 3)) == ends_of(graph("complete", 3)));
  CHECK(ends_of(graph("random-regular:1", 2)) == Ends{{0, 1}});
  CHECK(same(graph("random-regular:3", 4), graph("complete", 4)));
  CHECK(same(graph("erdos-renyi:1", 6), graph("complete", 6)));
}

TEST_CASE("a torus with a side of two has no double edge") {
  CHECK(ends_of(graph("torus:2x2", 4)) == Ends{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  CHECK(graph("torus:2x5", 10).edges().size() == 15);
  CHECK(ends_of(graph("torus:1x6", 6)) == ends_of(graph("ring", 6)));
  CHECK(same(graph("torus", 24), graph("torus:4x6", 24)));
}

TEST_CASE("the exponential graph lists the opposite rank twice and counts it twice") {
  const Topology doubled = graph("exponential", 8), simple = graph("exponential-simple", 8);
  CHECK(ends_of(doubled) == ends_of(simple));
  for (const Edge& edge : doubled.edges()) {
    CHECK(edge.multiplicity == (edge.j - edge.i == 4 ? 2 : 1));
    CHECK(edge.rate == Approx(edge.multiplicity / 6.0));
  }
  for (const Edge& edge : simple.edges())
    CHECK(edge.rate == Approx(1 / 5.0));
}

TEST_CASE("a graph from a spec exchanges n r / 2 times per unit of time") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    if (ranks == 1) return;
    RC_ASSERT(std::abs(total_rate(*make_topology(spec, ranks, 2.5)) / (1.25 * ranks) - 1) < 1e-12);
  }));
}

TEST_CASE("neighbours rise, are mutual and point at their edge") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology made = *make_topology(spec, ranks, 1);
    size_t ends = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      int last = -1;
      for (const Neighbour& other : made.neighbours(rank)) {
        RC_ASSERT(other.rank > std::exchange(last, other.rank));
        const Edge& edge = made.edges()[static_cast<size_t>(other.edge)];
        RC_ASSERT(edge.i == std::min(rank, other.rank));
        RC_ASSERT(edge.j == std::max(rank, other.rank));
        ++ends;
      }
    }
    RC_ASSERT(ends == 2 * made.edges().size());
    RC_ASSERT(std::ranges::is_sorted(ends_of(made)));
  }));
}

TEST_CASE("the same spec and ranks give the same graph, another seed another one") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    RC_ASSERT(same(*make_topology(spec, ranks, 1), *make_topology(spec, ranks, 1)));
  }));
  CHECK_FALSE(same(graph("random-regular:3:1", 64), graph("random-regular:3:2", 64)));
  CHECK_FALSE(same(graph("erdos-renyi:0.2:1", 64), graph("erdos-renyi:0.2:2", 64)));
  CHECK(same(graph("random-regular", 64), graph("random-regular:3:1", 64)));
}

TEST_CASE("an edge of an Erdos-Renyi graph is there with its probability") {
  int edges = 0;
  for (int seed = 0; seed < 50; ++seed) {
    edges += static_cast<int>(graph("erdos-renyi:0.3:" + std::to_string(seed), 60).edges().size());
  }
  const double mean = 0.3 * 1770 * 50, deviation = std::sqrt(mean * 0.7);
  CHECK(std::abs(edges - mean) < 4 * deviation);
}

TEST_CASE("a sparse Erdos-Renyi graph is drawn again until it is connected") {
  // About a third of these are connected, so a reader that gave up at the first would be seen.
  for (int seed = 0; seed < 20; ++seed) {
    const Topology made = graph("erdos-renyi:0.075:" + std::to_string(seed), 50);
    CHECK(made.edges().size() >= 49);
  }
}

TEST_CASE("no two edges of one colour meet, and 2 max degree - 1 colours are enough") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology made = *make_topology(spec, ranks, 1);
    const std::vector<int> colours = edge_colouring(made);
    RC_ASSERT(colours.size() == made.edges().size());
    const int degree = *degrees_of(made).rbegin();
    for (int rank = 0; rank < ranks; ++rank) {
      std::set<int> here;
      for (const Neighbour& other : made.neighbours(rank)) {
        const int colour = colours[static_cast<size_t>(other.edge)];
        RC_ASSERT(colour >= 0);
        RC_ASSERT(colour < 2 * degree - 1);
        RC_ASSERT(here.insert(colour).second);
      }
    }
  }));
  CHECK(edge_colouring(graph("ring", 6)) == std::vector{0, 1, 1, 0, 1, 0});
  const std::vector<int> spokes = edge_colouring(graph("star", 300));
  CHECK(spokes.back() == 298);
}

TEST_CASE("wanted rates follow the speed of the gradients at both ends") {
  const Topology star = graph("star", 4);
  const auto wanted = wanted_rates(star, 2.0, std::vector{3.0, 1.0, 0.5, 0.25});
  CHECK(wanted == std::vector{2.0, 1.5, 1.25});
  const Topology exponential = graph("exponential", 16, 0.7);
  const auto equal = wanted_rates(exponential, 0.7, std::vector<double>(16, 1.0));
  for (size_t e = 0; e < equal.size(); ++e)
    CHECK(equal[e] == exponential.edges()[e].rate);
}

TEST_CASE("a file gives edges and their absolute rates, with comments, in any order") {
  const TextFile file(
      "# a triangle and a tail\n\n 2\t1 0.5 # back to front\r\n0 1 2e-1\n2 0 7\n3 2 1");
  const Topology made = graph(file.path(), 4, 100.0);
  CHECK(ends_of(made) == Ends{{0, 1}, {0, 2}, {1, 2}, {2, 3}});
  CHECK(made.edges()[0].rate == 0.2);
  CHECK(made.edges()[2].rate == 0.5);
  CHECK(made.rates_given());
  CHECK(made.name() == file.path());
  CHECK(wanted_rates(made, 5.0, std::vector<double>(4, 9.0)) == std::vector{0.2, 7.0, 0.5, 1.0});
  CHECK_FALSE(graph("ring", 4).rates_given());
}

TEST_CASE("a file without rates has those of a named graph; separators and headers are free") {
  const Topology ring = graph("ring", 4, 3.0);
  for (const char* text :
       {"0 1\n1 2\n2 3\n3 0\n", "\xEF\xBB\xBFsource,target\n0,1\n1,2\n2,3\n0,3\n",
        "0 1 {}\n0 3 {}\n1 2 {}\n2 3 {}\n", "i;j\r\n0; 1\r\n1; 2\r\n2; 3\r\n3; 0\r\n"}) {
    const TextFile file(text);
    const Topology made = graph(file.path(), 4, 3.0);
    CHECK_FALSE(made.rates_given());
    CHECK(ends_of(made) == ends_of(ring));
    for (size_t e = 0; e < 4; ++e)
      CHECK(made.edges()[e].rate == ring.edges()[e].rate);
  }
  for (const char* text : {"source,target,weight\n0,1,0.25\n", "0 1 {'weight': 0.25}\n",
                           "1\t0\t0.25", "# nodes\n0;1;0.25"}) {
    const TextFile file(text);
    const Topology made = graph(file.path(), 2);
    CHECK(made.rates_given());
    CHECK(made.edges()[0].rate == 0.25);
  }
}

TEST_CASE("whatever else networkx knows of an edge, weight or rate is the rate") {
  for (const char* text :
       {"0 1 {'weight': 0.25, 'color': 'red'}\n", "0 1 {'capacity': 3, 'weight': .25}\n",
        "0 1 {'label': 'weight: 9, \"far\"', 'rate': 0.25}\n",
        "0 1 {'color': '#ff0000', 'weight': .25}",
        "0 1 {'was': {'weight': 7}, 'at': [1, 2], 'weight': 0.25} # a comment",
        "# written by hand\n\n# source, target\nsource target weight\n0 1 0.25\n"}) {
    INFO(text);
    const TextFile file(text);
    const Topology made = graph(file.path(), 2);
    CHECK(made.rates_given());
    CHECK(made.edges()[0].rate == 0.25);
  }
  for (const char* text :
       {"0 1 {'capacity': 3}\n", "0 1 {'color': 'red # not blue', 'weights': '2'}\n",
        "0 1 {} # {'weight': 4}\n"}) {
    INFO(text);
    const TextFile file(text);
    CHECK_FALSE(graph(file.path(), 2, 3.0).rates_given());
  }
}

TEST_CASE("a hundred thousand ranks are a graph like any other") {
  CHECK(graph("ring", 100000).edges().size() == 100000);
  CHECK(graph("star", 100000).degree(0) == 99999);
  CHECK(edge_colouring(graph("star", 100000)).back() == 99998);
  CHECK(graph("random-regular", 100000).edges().size() == 150000);
  CHECK(graph("erdos-renyi", 20000).ranks() == 20000);
}

TEST_CASE("every graph that is accepted is listed in the help") {
  const std::string help = topology_specs();
  for (const std::string spec :
       {"ring ", "chain", "star", "complete", "exponential ", "exponential-simple",
        "torus[:ROWSxCOLUMNS]", "hypercube", "binary-tree", "random-regular[:DEGREE[:SEED]]",
        "erdos-renyi[:PROBABILITY[:SEED]]", "cliques", "FILE", "relay-tree ", "three-tree",
        "relay-tree-reversed", "double-binary-trees", "social", "spanning:GRAPH[@ROOT]"}) {
    INFO(spec);
    CHECK(("\n" + help).find("\n" + spec) != std::string::npos);
  }
}
