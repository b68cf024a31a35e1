// When a node begins its next incarnation, and whether its name is still its own.
#include "actors/membership/own_incarnation.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("an incarnation that others know of makes a node begin the next, once") {
  OwnIncarnation own;
  CHECK(std::isinf(own.due(1)));
  CHECK_FALSE(own.take(10, 1));
  own.contest(4, "it has lived before");
  CHECK(own.due(1) <= 10);
  const auto next = own.take(10, 1);
  REQUIRE(next);
  CHECK(next->incarnation == 5);
  CHECK(next->why == "it has lived before");
  CHECK(std::isinf(own.due(5)));
  CHECK_FALSE(own.take(20, 5));
}

TEST_CASE("who is contested again begins one a second, the newest, and says why") {
  OwnIncarnation own;
  own.contest(1, "it was declared dead");
  CHECK(own.take(10, 1)->incarnation == 2);
  own.contest(7, "it has lived before");
  own.contest(3, "it was declared dead");
  CHECK(own.due(2) == 11);
  CHECK_FALSE(own.take(10.9, 2));
  const auto next = own.take(11, 2);
  REQUIRE(next);
  CHECK(next->incarnation == 8);
  CHECK(next->why == "it was declared dead");
}

TEST_CASE("ranks that are taken cost three incarnations in a row, then one a second") {
  OwnIncarnation own;
  for (int k = 0; k < 3; ++k) {
    CHECK(own.ranks_due() <= 10);
    own.count(10);
  }
  CHECK(own.ranks_due() == 11);
  own.contest(1, "it was declared dead");  // which waits for its turn too
  CHECK(own.due(1) == 11);
  CHECK(own.take(11, 1));
  CHECK(own.ranks_due() == 12);
}

TEST_CASE("a process has lost its name to one it first hears of after it has stood still") {
  OwnIncarnation own;
  CHECK_FALSE(own.lost_to(1, 70, true, false));  // it was there meanwhile: that one is refuted
  own.stood_still(10);
  CHECK_FALSE(own.lost_to(11, 70, true, false));
  CHECK_FALSE(own.lost_to(11, 71, true, true));  // ended: nobody has the name
  CHECK(own.lost_to(11, 71, true, false));
  CHECK(own.lost_to(39.9, 72, true, false));
  CHECK_FALSE(own.lost_to(40, 72, true, false));
}

TEST_CASE("a process whose ranks are not yet in the graph has no name to lose") {
  OwnIncarnation own;
  own.stood_still(10);
  CHECK_FALSE(own.lost_to(11, 70, false, false));
  CHECK_FALSE(own.lost_to(12, 70, true, false));
}

TEST_CASE("of the processes that a node outlived it remembers the last sixteen") {
  OwnIncarnation own;
  for (uint64_t id = 1; id <= 17; ++id)
    CHECK_FALSE(own.lost_to(1, id, true, false));
  own.stood_still(10);
  CHECK_FALSE(own.lost_to(11, 2, true, false));
  CHECK_FALSE(own.lost_to(11, 17, true, false));
  CHECK(own.lost_to(11, 1, true, false));
}
