// What membership promises when nothing or one thing goes wrong, with the times that it takes.
#include "tests/catch.hpp"
#include "tests/membership_world.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

bool all_see(const World& world, int node, MemberState state) {
  for (int other = 0; other < world.count(); ++other) {
    if (other != node && world.running(other) && world.state_of(node, other) != state) return false;
  }
  return true;
}

WorldSettings nodes(int count, uint64_t seed) {
  WorldSettings s;
  s.nodes = count;
  s.seed = seed;
  return s;
}

}  // namespace

TEST_CASE("nodes that know one address find each other, and share the ranks out") {
  for (const int count : {1, 2, 3, 4, 16, 64}) {
    World world(nodes(count, 1));
    INFO(count << " nodes");
    CHECK(world.run_until([&] { return world.one_view(); }, 20) < 2);
    CHECK(world.view_difference() == "");
    CHECK(world.complaint() == "");
    CHECK(world.accusations() == 0);
  }
}

TEST_CASE("a stopped node is suspected by all within a second, with 4 nodes and with 64") {
  for (const int count : {4, 64}) {
    double worst_s = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      World world(nodes(count, seed));
      REQUIRE(world.run_until([&] { return world.one_view(); }, 20) < 20);
      world.run(world.now() + 5 + world.random().uniform());
      const int node = static_cast<int>(world.random().below(static_cast<uint32_t>(count)));
      world.stop(node);
      const double took_s =
          world.run_until([&] { return all_see(world, node, MemberState::suspect); }, 20);
      worst_s = std::max(worst_s, took_s);
      INFO("seed " << seed);
      CHECK(took_s < 1);
    }
    WARN(count << " nodes: a stop is known to all after " << worst_s << " s at worst");
  }
}
