// When a node begins its next incarnation, and whether its name is still its own.
#include "actors/membership/own_incarnation.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("an incarnation that others know of makes a node begin the next, once") {
  OwnIncarnation own;
  CHECK(std::isinf(own.due(1)));
  CHECK_FALSE(own.take(10, 1));
  own.contest(4, "it was in the run before");
  CHECK(own.due(1) <= 10);
  const auto next = own.take(10, 1);
  REQUIRE(next);
  CHECK(next->incarnation == 5);
  CHECK(next->why == "it was in the run before");
  CHECK(std::isinf(own.due(5)));
  CHECK_FALSE(own.take(20, 5));
}

TEST_CASE("who is contested again begins one a second, the newest, and says why") {
  OwnIncarnation own;
  own.contest(1, "it was declared dead");
  CHECK(own.take(10, 1)->incarnation == 2);
  own.contest(7, "it was in the run before");
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

TEST_CASE(
    "one alone makes a node begin incarnations ever more rarely, and others as well as before") {
  OwnIncarnation own;
  std::vector<double> begun;
  uint32_t incarnation = 1;
  for (double now = 0; now < 40; now += 0.5) {
    own.contest(now, incarnation, "it was declared dead", 7);
    if (own.take(now, incarnation)) {
      ++incarnation;
      begun.push_back(now);
    }
  }
  CHECK(begun == std::vector<double>{0, 1, 3, 7, 15, 31});
  own.contest(40, incarnation, "it was declared dead", 8);
  CHECK(own.take(40, incarnation));
}

namespace {

using Says = OwnIncarnation::Says;

OwnIncarnation::Rival rival(uint64_t id, uint32_t by, bool is_over = false, bool by_all = false) {
  return {id, by, is_over, by_all};
}

}  // namespace

TEST_CASE("a process has lost its name to one that two others tell of first after it stood still") {
  OwnIncarnation own;
  CHECK(own.hear(1, rival(70, 1)) == Says::nothing);  // it was there meanwhile: that one is refuted
  CHECK(own.hear(1, rival(70, 2)) == Says::contest);
  own.stood_still(10);
  CHECK(own.hear(11, rival(70, 1)) == Says::contest);
  CHECK(own.hear(11, rival(71, 1)) == Says::nothing);
  CHECK(own.hear(11, rival(71, 1)) == Says::nothing);        // the same one's word
  CHECK(own.hear(11, rival(71, 2, true)) == Says::contest);  // ended: nobody has the name
  CHECK(own.hear(11, rival(71, 2)) == Says::lost);
  CHECK(own.hear(39.9, rival(72, 3, false, true)) == Says::lost);  // of the only other one
  CHECK(own.hear(40, rival(73, 3, false, true)) == Says::contest);
}

TEST_CASE("of the processes of its name a node remembers the last sixteen") {
  OwnIncarnation own;
  for (uint64_t id = 1; id <= 17; ++id)
    CHECK(own.hear(1, rival(id, 1, false, true)) == Says::contest);
  own.stood_still(10);
  CHECK(own.hear(11, rival(17, 1, false, true)) == Says::contest);
  CHECK(own.hear(11, rival(2, 1, false, true)) == Says::contest);
  CHECK(own.hear(11, rival(1, 1, false, true)) == Says::lost);
}
