// Who is suspected, by whom, and for how long.
#include "actors/membership/suspicions.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr uint32_t kSuspect = 3, kOther = 4;
constexpr size_t kLive = 10;

}  // namespace

TEST_CASE("a suspect has ten seconds, and lapses then and not before") {
  Suspicions suspicions;
  CHECK(std::isinf(suspicions.next(kLive)));
  suspicions.suspect(100, kSuspect, 1);
  suspicions.suspect(104, kOther, 1);
  CHECK(suspicions.next(kLive) == 110);
  CHECK(suspicions.lapsed(109.9, kLive).empty());
  CHECK(suspicions.lapsed(110, kLive) == std::vector<uint32_t>{kSuspect});
  CHECK(suspicions.lapsed(114, kLive) == std::vector<uint32_t>{kSuspect, kOther});
}

TEST_CASE("each other who finds the same shortens that, down to five seconds, and counts once") {
  Suspicions suspicions;
  suspicions.suspect(100, kSuspect, 1);
  CHECK_FALSE(suspicions.confirm(kSuspect, 1));
  double before = suspicions.next(kLive);
  for (uint32_t accuser = 2; accuser <= 4; ++accuser) {
    CHECK(suspicions.confirm(kSuspect, accuser));
    CHECK_FALSE(suspicions.confirm(kSuspect, accuser));
    CHECK(suspicions.next(kLive) < before);
    before = suspicions.next(kLive);
  }
  CHECK(before == 105);
  CHECK_FALSE(suspicions.confirm(kSuspect, 5));  // three are enough
  CHECK_FALSE(suspicions.confirm(kOther, 5));    // nobody suspects it
  CHECK(suspicions.accuses(kSuspect, 4));
  CHECK_FALSE(suspicions.accuses(kSuspect, 5));
}

TEST_CASE("of three who may find the same the first takes half of what all take together") {
  Suspicions suspicions;
  suspicions.suspect(100, kSuspect, 1);
  suspicions.confirm(kSuspect, 2);
  CHECK(suspicions.next(kLive) == Approx(107.5));  // by the logarithm of their number
}

TEST_CASE("where nobody else is left who could find the same, five seconds are all there is") {
  Suspicions suspicions;
  suspicions.suspect(100, kSuspect, 1);
  CHECK(suspicions.next(2) == 105);
}

TEST_CASE("who has stood still gives all suspects as much longer") {
  Suspicions suspicions;
  suspicions.suspect(100, kSuspect, 1);
  suspicions.stood_still(3);
  CHECK(suspicions.next(kLive) == 113);
}

TEST_CASE("news of a member end what was suspected and claimed of it, and of nobody else") {
  Suspicions suspicions;
  suspicions.suspect(100, kSuspect, 1);
  suspicions.suspect(100, kOther, 1);
  suspicions.claim({kSuspect, MemberState::left, 7});
  suspicions.claim({kOther, MemberState::dead, 8});
  REQUIRE(suspicions.claimed(kSuspect));
  CHECK(suspicions.claimed(kSuspect)->by == 7);
  CHECK(suspicions.claimed(kSuspect)->state == MemberState::left);
  suspicions.forget(kSuspect);
  CHECK_FALSE(suspicions.claimed(kSuspect));
  CHECK(suspicions.claimed(kOther)->by == 8);
  CHECK(suspicions.lapsed(1000, kLive) == std::vector<uint32_t>{kOther});
}
