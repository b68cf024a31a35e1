// The ranks of a node that is gone, and a node whose link breaks.
#include "tests/catch.hpp"
#include "tests/membership/world.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

Member member(const std::string& node, uint32_t first_rank, uint32_t incarnation,
              MemberState state) {
  Member m;
  m.node = node;
  m.incarnation = incarnation;
  m.first_rank = first_rank;
  m.ranks = 2;
  m.state = state;
  if (state == MemberState::left) m.last_word = state;
  return m;
}

std::unique_ptr<World> four_that_know_each_other() {
  WorldSettings settings;
  settings.seed = 21;
  auto world = std::make_unique<World>(settings);
  REQUIRE(world->run_until([&] { return world->one_view(); }, 20) < 20);
  world->run(world->now() + 5);
  return world;
}

}  // namespace

TEST_CASE("who takes the ranks of the dead or of who left does so in a later incarnation") {
  // Whoever still has frames of the old owner must be able to tell them from the new one's.
  for (const MemberState over : {MemberState::dead, MemberState::left}) {
    MemberTable table(member("self", kAnyRank, 1, MemberState::alive), {});
    table.merge(member("old", 4, 7, over));
    table.merge(member("older", 4, 3, over));
    table.merge(member("living", 0, 9, MemberState::alive));
    CHECK(table.incarnation_with(4) == 8u);
    CHECK(table.incarnation_with(5) == 8u);
    CHECK(table.incarnation_with(2) == 1u);
    CHECK(table.incarnation_with(0) == 1u);  // of the living: it does not get those
  }
}

TEST_CASE("who takes the ranks of the dead in a running cluster begins after their last owner") {
  const auto world = four_that_know_each_other();
  const Member gone = world->at(3).self();
  world->leave(3);
  world->run(world->now() + 1);
  const int newcomer = world->join(0);
  REQUIRE(world->run_until([&] { return world->one_view(); }, 20) < 20);
  CHECK(world->at(newcomer).self().first_rank == gone.first_rank);
  CHECK(world->at(newcomer).self().incarnation > gone.incarnation);
}

TEST_CASE("a link that breaks is a suspicion at both ends, at once") {
  const auto world = four_that_know_each_other();
  REQUIRE(world->accusations() == 0);
  world->break_link(1, 2);
  world->run(world->now() + 1e-3);
  CHECK(world->accusations_by(1) == 1);
  CHECK(world->accusations_by(2) == 1);
  CHECK(world->accusations() == 2);
}
