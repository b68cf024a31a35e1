// A user's mistakes, and the one line that tells each.
#include <limits>

#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("an unknown graph is refused with the names that are accepted") {
  CHECK(refusal("rnig", 8) ==
        "topology 'rnig' with 8 ranks: unknown graph; accepted: ring, chain, star, complete, "
        "exponential, exponential-simple, torus, hypercube, binary-tree, relay-tree, "
        "relay-tree-reversed, double-binary-trees, three-tree, random-regular, erdos-renyi, "
        "cliques, social, spanning, or a file (a name with '/' or '.')");
  CHECK(refusal("", 8).starts_with("topology '' with 8 ranks: unknown graph; accepted: ring"));
  CHECK(refusal("a\nb", 8).starts_with("topology 'a?b' with 8 ranks: unknown graph"));
}

TEST_CASE("no ranks, or too many, are refused") {
  CHECK(refusal("ring", 0) == "topology 'ring' with 0 ranks: at least 1 is needed");
  CHECK(refusal("star", -3) == "topology 'star' with -3 ranks: at least 1 is needed");
  CHECK(refusal("ring", 1 << 30) == "topology 'ring' with 1073741824 ranks: at most 8388608");
  CHECK(refusal("complete", 100000) ==
        "topology 'complete' with 100000 ranks: about 4.99995e+09 edges; at most 2097152 are "
        "accepted");
  for (const std::string spec : {"cliques", "erdos-renyi:0.5"})
    CHECK(refusal(spec, 100000).find("at most 2097152 are accepted") != std::string::npos);
  for (const std::string spec : {"erdos-renyi:0.09", "random-regular:5000"})
    CHECK(refusal(spec, 100000).find("at most 16777216 are accepted") != std::string::npos);
  CHECK(refusal("exponential", 1 << 21).find("at most 16777216") != std::string::npos);
}

TEST_CASE("a rate that is not positive and finite is refused") {
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(refusal("ring", 8, rate).find("it must be positive and finite") != std::string::npos);
  }
  CHECK(refusal("ring", 8, -0.5) ==
        "topology 'ring' with 8 ranks: rate -0.5 exchanges per rank and unit of time; it must be "
        "positive and finite");
}

TEST_CASE("exponential graphs and hypercubes name the nearest powers of two") {
  for (const std::string spec : {"exponential", "exponential-simple", "hypercube"}) {
    CHECK(refusal(spec, 12) == "topology '" + spec +
                                   "' with 12 ranks: the number of ranks must be "
                                   "a power of two; the nearest are 8 and 16");
  }
}

TEST_CASE("the sides of a torus must make its ranks") {
  const std::string rest =
      "' do not make 16; accepted: ROWSxCOLUMNS with that product, such as 4x4";
  for (const std::string sides :
       {"3x5", "4", "x", "4x", "4x4x1", "-4x-4", "0x16", "axb", "", "4294967296x4294967296"}) {
    CHECK(refusal("torus:" + sides, 16) ==
          "topology 'torus:" + sides + "' with 16 ranks: the sides '" + sides + rest);
  }
  CHECK(refusal("torus", 13) ==
        "topology 'torus' with 13 ranks: a prime number of ranks makes no grid; accepted: a "
        "product of two sides, or torus:1x13, which is a ring");
}

TEST_CASE("a random-regular graph that cannot be is refused") {
  CHECK(refusal("random-regular", 63) ==
        "topology 'random-regular' with 63 ranks: degree 3 times 63 ranks is odd; one of the two "
        "must be even");
  for (const std::string degree : {"8", "9", "0", "-2", "2.5", "many", ""}) {
    CHECK(refusal("random-regular:" + degree, 8) ==
          "topology 'random-regular:" + degree + "' with 8 ranks: the degree '" + degree +
              "' is not a whole number from 1 to ranks - 1");
  }
  CHECK(
      refusal("random-regular:1", 8) ==
      "topology 'random-regular:1' with 8 ranks: degree 1 joins pairs only; at least 2 is needed");
  CHECK(refusal("random-regular:3:-1", 8) ==
        "topology 'random-regular:3:-1' with 8 ranks: the seed '-1' is not a whole number from 0 "
        "to 2^64 - 1");
}

TEST_CASE("an Erdos-Renyi graph that cannot be, or never is connected, is refused") {
  for (const std::string p : {"0", "-0.1", "1.5", "nan", "inf", "half", ""}) {
    CHECK(refusal("erdos-renyi:" + p, 8) == "topology 'erdos-renyi:" + p +
                                                "' with 8 ranks: the probability '" + p +
                                                "' is not a number above 0 and at most 1");
  }
  CHECK(refusal("erdos-renyi:0.01", 64) ==
        "topology 'erdos-renyi:0.01' with 64 ranks: no connected graph in 100 attempts with "
        "probability 0.01; graphs of this size are mostly connected above ln(n)/n = 0.0649825");
  CHECK(refusal("erdos-renyi:0.5:x", 8).find("the seed 'x'") != std::string::npos);
}

TEST_CASE("arguments that a graph does not take are refused") {
  CHECK(refusal("ring:8", 8) ==
        "topology 'ring:8' with 8 ranks: too many arguments; accepted: ring");
  CHECK(refusal("torus:2x4:1", 8) ==
        "topology 'torus:2x4:1' with 8 ranks: too many arguments; "
        "accepted: torus[:ROWSxCOLUMNS]");
}

TEST_CASE("the social graph is for 32 ranks") {
  CHECK(refusal("social", 16) ==
        "topology 'social' with 16 ranks: these are 18 women and 14 "
        "events; accepted: 32 ranks");
}

TEST_CASE("a spanning tree without a graph, or from a root that is no rank, is refused") {
  for (const std::string spec : {"spanning", "spanning:", "spanning:@2"}) {
    CHECK(refusal(spec, 8) == "topology '" + spec +
                                  "' with 8 ranks: no graph to span; accepted: "
                                  "spanning:GRAPH[@ROOT], such as spanning:ring or "
                                  "spanning:ring@0");
  }
  for (const std::string root : {"8", "-1", "", "two", "4294967296"}) {
    CHECK(refusal("spanning:ring@" + root, 8) == "topology 'spanning:ring@" + root +
                                                     "' with 8 ranks: the root '" + root +
                                                     "' is not a rank; accepted: 0 to 7");
  }
  CHECK(refusal("spanning:rnig@2", 8).starts_with("topology 'rnig' with 8 ranks: unknown graph"));
  CHECK(refusal("spanning:hypercube", 12).starts_with("topology 'hypercube' with 12 ranks: the "));
}

TEST_CASE("a file that is not there is named") {
  const std::string rest = "; a spec with '/' or '.' names a file of lines `i j rate` or `i j`";
  const std::string none = ": it cannot be opened" + rest;
  CHECK(refusal("no/such/graph", 8) == "topology 'no/such/graph'" + none);
  CHECK(refusal("graph.txt", 8) == "topology 'graph.txt'" + none);
  CHECK(refusal("./", 8) == "topology './': it is a folder" + rest);
  CHECK(refusal("/dev/zero", 8) == "topology '/dev/zero': it is a device" + rest);
}

TEST_CASE("a wrong line of a file is named by its number") {
  const std::string first = "# two good lines first\n0 1 1\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"1 2", " line 3: '1 2' has no rate and line 2 has one; all lines must be alike"},
      {"1", " line 3: '1' is not of the form `i j rate` or `i j` with two ranks and a number"},
      {"one two three",
       " line 3: 'one two three' is not of the form `i j rate` or `i j` with two ranks and a "
       "number"},
      {"1 2 3 4",
       " line 3: '1 2 3 4' is not of the form `i j rate` or `i j` with two ranks and a number"},
      {"1 two 3",
       " line 3: '1 two 3' is not of the form `i j rate` or `i j` with two ranks and a number"},
      {"1 2.0 3",
       " line 3: '1 2.0 3' is not of the form `i j rate` or `i j` with two ranks and a number"},
      {"1 2 3s",
       " line 3: '1 2 3s' is not of the form `i j rate` or `i j` with two ranks and a number"},
      {"1 4294967298 1",
       " line 3: '1 4294967298 1' is not of the form `i j rate` or `i j` with two ranks "
       "and a number"},
      {"4294967296 1 1",
       " line 3: '4294967296 1 1' is not of the form `i j rate` or `i j` with two ranks "
       "and a number"},
      {"1 2 {'weight': 'heavy'}",
       " line 3: '1 2 {'weight': 'heavy'}' is not of the form `i j rate` or "
       "`i j` with two ranks and a number"},
      {"{'weight': 1}",
       " line 3: '{'weight': 1}' is not of the form `i j rate` or `i j` with two "
       "ranks and a number"},
      {"from to",
       " line 3: 'from to' is not of the form `i j rate` or `i j` with two ranks and a "
       "number"},
      {"2 2 1", " line 3: edge 2 2 joins a rank to itself; two ranks are needed"},
      {"1 3 1", " line 3: edge 1 3 names rank 3; accepted: 0 to 2"},
      {"-1 2 1", " line 3: edge -1 2 names rank -1; accepted: 0 to 2"},
      {"1 2 -0.5", " line 3: edge 1 2 has rate -0.5; it must be positive and finite"},
      {"1 2 0", " line 3: edge 1 2 has rate 0; it must be positive and finite"},
      {"1 2 inf", " line 3: edge 1 2 has rate inf; it must be positive and finite"},
      {"1 2 1\n\n1 0 4",
       " line 5: edge 0 1 is given already in line 2; every edge must be given "
       "once"},
      {"# 2 is alone",
       " with 3 ranks: not connected: rank 2 cannot be reached from rank 0; every "
       "rank must be"}};
  for (const auto& [line, complaint] : cases) {
    const TextFile file(first + line + "\n");
    CHECK(refusal(file.path(), 3) == "topology '" + file.path() + "'" + complaint);
  }
  const TextFile binary(first + std::string(500, '\x01'));
  CHECK(refusal(binary.path(), 3).size() < 250);
}

TEST_CASE("a spec tells whether a file would be read for it") {
  for (const char* spec :
       {"graph.txt", "./graph", "a/b", "spanning:./graph.txt", "spanning:g.txt@2"})
    CHECK(names_edge_file(spec));
  for (const char* spec : {"ring", "erdos-renyi:0.4:3", "spanning:erdos-renyi:0.4@3",
                           "spanning:ring", "torus:3x4", "nonsense"})
    CHECK_FALSE(names_edge_file(spec));
}

TEST_CASE("edges handed over by a program are refused in the same words") {
  const auto complaint = [](int ranks, std::vector<Edge> edges) {
    const auto made = Topology::from_edges(ranks, std::move(edges), "mine");
    return made ? "accepted" : made.error().message;
  };
  CHECK(complaint(1, {}) == "accepted");
  CHECK(complaint(2, {{1, 0, 1}}) == "accepted");
  CHECK(complaint(0, {}) == "topology 'mine' with 0 ranks: at least 1 is needed");
  const std::string mine = "topology 'mine' with 2 ranks: ";
  CHECK(complaint(2, {{0, 1, 1}, {1, 0, 1}}) ==
        mine + "edge 0 1 is given twice; every edge must be given once");
  CHECK(complaint(2, {{1, 1, 1}}) ==
        mine + "edge 1 1 joins a rank to itself; two ranks are needed");
  CHECK(complaint(2, {{0, 2, 1}}) == mine + "edge 0 2 names rank 2; accepted: 0 to 1");
  CHECK(complaint(2, {{0, 1, 0}}) == mine + "edge 0 1 has rate 0; it must be positive and finite");
  CHECK(complaint(2, {{0, 1, 1, 0}}) ==
        mine + "edge 0 1 has multiplicity 0; it must be at least 1");
  CHECK(complaint(2, {{0, 1, 1, 1, 0}}) ==
        mine + "edge 0 1 belongs to no tree; its mask must be at least 1");
  CHECK(complaint(2, {}) ==
        mine + "not connected: rank 1 cannot be reached from rank 0; every rank must be");
}
