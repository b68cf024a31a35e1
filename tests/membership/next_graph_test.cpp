// Which graph follows, and when.
#include "actors/membership/next_graph.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

GraphSpec version(uint64_t number, const std::string& node = "b") { return {number, node, "star"}; }

}  // namespace

TEST_CASE("a graph that is wished for is taken at once, and once") {
  NextGraph graph;
  CHECK(std::isinf(graph.due()));
  CHECK(graph.wish("a", "chain", version(7)));
  CHECK(graph.due() <= 0);
  CHECK(graph.take(0) == GraphSpec{8, "a", "chain"});
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
  CHECK(graph.hear(0, version(3, "c"), version(2), false));
  CHECK(graph.hear(0, version(3, "b"), version(2), false));
  CHECK(graph.hear(0, version(2, "z"), version(2), false));
  CHECK(graph.take(0) == version(3, "c"));
  CHECK(graph.hear(0, version(3, "b"), version(3, "c"), false));
  CHECK(graph.take(0) == std::nullopt);
  CHECK(graph.hear(0, version(5), version(3), false));
  CHECK(graph.wish("a", "chain", version(3)));  // after all that was heard of
  CHECK(graph.take(0)->version == 6);
}

TEST_CASE("a version too far ahead is refused for so long, but to a newcomer it may be any") {
  constexpr uint64_t kSecond = 1024;  // versions
  NextGraph graph;
  graph.start(10);
  CHECK(graph.hear(10, version(1 + kSecond), version(1), false));
  CHECK_FALSE(graph.hear(10, version(2 + kSecond), version(1), false));
  CHECK(graph.take(10) == version(1 + kSecond));
  CHECK_FALSE(graph.hear(12, version(2 + 4 * kSecond), version(1 + kSecond), false));
  CHECK(graph.hear(13, version(2 + 4 * kSecond), version(1 + kSecond), false));
  CHECK(graph.hear(13, version(kSpecsAtMost), version(1 + kSecond), true));
  CHECK(graph.take(13)->version == kSpecsAtMost);
}

TEST_CASE("versions that there are none of are no graph, and at the last one nothing is wished") {
  NextGraph graph;
  CHECK(graph.hear(0, version(kSpecsAtMost + 1), version(1), true));
  CHECK(std::isinf(graph.due()));
  CHECK_FALSE(graph.wish("a", "chain", version(kSpecsAtMost)));
  CHECK(std::isinf(graph.due()));
  CHECK(graph.wish("a", "chain", version(kSpecsAtMost - 1)));
}
