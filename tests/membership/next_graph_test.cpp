// Which graph follows, and when.
#include "actors/membership/next_graph.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr uint64_t kAhead = 4, kSecond = 16;  // versions

GraphSpec version(uint64_t number, const std::string& node = "b") {
  return {number, node, "star", {1}, {}};
}

NextGraph::Word says(const GraphSpec& graph, const std::string& by = "b", bool in_graph = true) {
  return {by, graph, in_graph};
}

}  // namespace

TEST_CASE("a graph that is wished for is taken at once, and once") {
  NextGraph graph;
  CHECK(std::isinf(graph.due()));
  CHECK(graph.wish("a", "chain", version(7)));
  CHECK(graph.due() <= 0);
  CHECK(graph.take(0) == GraphSpec{8, "a", "chain", {}, {}});
  CHECK(graph.take(0) == std::nullopt);
  CHECK(std::isinf(graph.due()));
}

TEST_CASE("four graphs in a row are taken, then one a second") {
  NextGraph graph;
  GraphSpec now = version(1);
  for (int k = 0; k < 4; ++k) {
    CHECK(graph.wish("a", "chain", now));
    const auto next = graph.take(100);
    REQUIRE(next);
    now = *next;
  }
  for (int k = 1; k < 4; ++k) {
    CHECK(graph.wish("a", "chain", now));
    CHECK(graph.due() == 100 + k);
    CHECK(graph.take(99.9 + k) == std::nullopt);
    now = graph.take(100 + k).value();
  }
  CHECK(now.version == 8);
}

TEST_CASE("of the graphs heard of meanwhile the one that wins is taken, and no older one") {
  NextGraph graph;
  CHECK(graph.hear(0, says(version(3, "c")), version(2), false));
  CHECK(graph.hear(0, says(version(3, "b")), version(2), false));
  CHECK(graph.hear(0, says(version(2, "z")), version(2), false));
  CHECK(graph.take(0) == version(3, "c"));
  CHECK(graph.hear(0, says(version(3, "b")), version(3, "c"), false));
  CHECK(graph.take(0) == std::nullopt);
  CHECK(graph.hear(0, says(version(5)), version(3), false));
  CHECK(graph.wish("a", "chain", version(3)));  // after all that was heard of
  CHECK(graph.take(0)->version == 6);
}

TEST_CASE("a wish that nobody has heard of gives way to the next, of the same version") {
  NextGraph graph;
  for (int k = 0; k < 100; ++k)
    CHECK(graph.wish("a", "graph-" + std::to_string(k), version(7)));
  CHECK(graph.take(0) == GraphSpec{8, "a", "graph-99", {}, {}});
}

TEST_CASE("a version too far ahead is refused for so long") {
  NextGraph graph;
  graph.start(10);
  CHECK(graph.hear(10, says(version(1 + kAhead)), version(1), false));
  CHECK_FALSE(graph.hear(10, says(version(2 + kAhead)), version(1), false));
  CHECK(graph.take(10) == version(1 + kAhead));
  const GraphSpec far = version(1 + 2 * kAhead + 3 * kSecond);
  CHECK_FALSE(graph.hear(12, says(far), version(1 + kAhead), false));
  CHECK(graph.hear(13, says(far), version(1 + kAhead), false));
}

TEST_CASE("a newcomer believes any version that nobody denies for two seconds") {
  NextGraph graph;
  graph.start(0);
  CHECK(graph.hear(10, says(version(kSpecsAtMost)), version(0), true));
  CHECK(graph.due() == 12);
  CHECK(graph.take(11.9) == std::nullopt);
  CHECK(graph.hear(11.9, says(version(kSpecsAtMost - 1)), version(0), false));  // the same one's
  CHECK(graph.hear(11.9, says(version(0), "c", false), version(0), false));  // a newcomer like it
  CHECK(graph.take(12) == version(kSpecsAtMost));
  CHECK(std::isinf(graph.due()));
}

TEST_CASE("a newcomer believes of two who say versions far ahead the lower, at once") {
  for (const bool first : {true, false}) {
    NextGraph graph;
    const GraphSpec low = version(1 << 20), high = version(1 << 21);
    CHECK(graph.hear(0, says(first ? low : high, "b"), version(0), true));
    CHECK(graph.take(0) == std::nullopt);
    CHECK(graph.hear(0, says(first ? high : low, "c"), version(0), false));
    CHECK(graph.take(0) == low);
    CHECK_FALSE(graph.hear(0, says(high, "d"), low, true));  // it is a newcomer once
    CHECK(graph.take(5) == std::nullopt);
  }
}

TEST_CASE("a newcomer does not believe a version far ahead that somebody in the graph denies") {
  for (const bool first : {true, false}) {
    NextGraph graph;
    const auto lie = [&] { CHECK(graph.hear(0, says(version(1 << 20)), version(0), true)); };
    if (first) lie();
    CHECK(graph.hear(0, says(version(0), "c"), version(0), true));
    if (!first) lie();
    CHECK(graph.take(10) == std::nullopt);
    CHECK(std::isinf(graph.due()));
    CHECK_FALSE(graph.hear(10, says(version(1 << 20)), version(0), false));
  }
}

TEST_CASE("versions that there are none of are no graph, and at the last one nothing is wished") {
  NextGraph graph;
  CHECK(graph.hear(0, says(version(kSpecsAtMost + 1)), version(1), true));
  CHECK(std::isinf(graph.due()));
  CHECK_FALSE(graph.wish("a", "chain", version(kSpecsAtMost)));
  CHECK(std::isinf(graph.due()));
  CHECK(graph.wish("a", "chain", version(kSpecsAtMost - 1)));
}
