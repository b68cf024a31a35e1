#include "actors/state/edge_distances.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr uint64_t kFew = 31, kMany = 32;  // gradients

double never_asked() {
  FAIL("how far the rank has come was asked for");
  return 0;
}

EdgeDistances pairwise() { return {0, Pattern::pairwise, true}; }

EdgeDistances met(EdgeDistances distances, int peer, double level) {
  REQUIRE(distances.takes(peer, level, INFINITY));
  return distances;
}

}  // namespace

TEST_CASE("of a stranger a thousand times the way that the rank has come is taken, later ten") {
  const EdgeDistances none = pairwise();
  CHECK_FALSE(none.knows_bound(1));
  CHECK(none.bound(1, kFew, [] { return 2.0; }) == Approx(2000));
  CHECK(none.bound(1, kMany, [] { return 2.0; }) == Approx(20));
  CHECK(none.bound(1, 0, [] { return 0.0; }) == INFINITY);  // nothing has moved
}

TEST_CASE("a stranger may be a thousand times as far off as the farthest of the others") {
  const EdgeDistances two = met(met(pairwise(), 1, 5), 2, 3);
  CHECK(two.bound(7, kMany, [] { return 1.0; }) == Approx(5000));
  CHECK(two.bound(7, kMany, [] { return 600.0; }) == Approx(6000));
}

TEST_CASE("an edge that has seen a distance says its own bound, whatever the others do") {
  const EdgeDistances two = met(met(pairwise(), 1, 5), 2, 3000);
  CHECK(two.knows_bound(1));
  CHECK(two.bound(1, kMany, never_asked) == Approx(50000));
}

TEST_CASE("what is too far off is left out and raises the bound of an edge that is known") {
  EdgeDistances one = met(pairwise(), 1, 1);
  const auto bound = [&] { return one.bound(1, kMany, never_asked); };
  for (int n = 0; n < 8; ++n)
    CHECK(one.takes(1, 1, bound()));
  const double before = bound();
  CHECK_FALSE(one.takes(1, 1e9, before));
  CHECK(bound() > before);
  CHECK_FALSE(one.takes(1, NAN, INFINITY));
  CHECK_FALSE(one.takes(1, INFINITY, INFINITY));
  CHECK_FALSE(one.takes(2, 1e9, 1));  // nothing is learned of a stranger's
  CHECK_FALSE(one.knows_bound(2));
}

TEST_CASE("where ranks add what is alike, none may add much more than the others and this one") {
  EdgeDistances sum(0, Pattern::rounds, true);
  CHECK_FALSE(sum.knows_bound(1));  // this rank has added nothing
  sum.at(0).expected.learn(2);
  CHECK(sum.knows_bound(1));
  CHECK(sum.bound(1, kMany, never_asked) == Approx(200));
  sum = met(sum, 2, 7);
  CHECK(sum.bound(1, kMany, never_asked) == Approx(700));
  const double before = sum.bound(2, kMany, never_asked);
  CHECK_FALSE(sum.takes(2, 1e9, before));
  CHECK(sum.bound(2, kMany, never_asked) == before);  // no sum gets better by it
}

TEST_CASE("what all add together is judged by what they have added in this epoch") {
  EdgeDistances all(3, Pattern::collective, true);
  CHECK(all.knows_bound(EdgeDistances::kAll));
  CHECK(all.bound(EdgeDistances::kAll, 0, never_asked) == INFINITY);
  all = met(met(all, EdgeDistances::kAll, 4), 3, 1);
  CHECK(all.bound(EdgeDistances::kAll, 0, never_asked) == Approx(40000));
  all.forget_peers();
  CHECK(all.bound(EdgeDistances::kAll, 0, never_asked) == INFINITY);
  CHECK(all.bound(3, 0, never_asked) == Approx(10000));
  CHECK_FALSE(all.takes(3, 20000, 10000));
  CHECK(all.bound(3, 0, never_asked) == Approx(10000));
}

TEST_CASE("where nobody takes steps nothing is too far off") {
  const EdgeDistances none = met({0, Pattern::pairwise, false}, 1, 1);
  CHECK(none.knows_bound(2));
  for (const int peer : {1, 2})
    CHECK(none.bound(peer, 0, never_asked) == INFINITY);
}
