// What distance is expected across an edge: it keeps up with what honest ranks do, and not with
// steps that diverge.
#include "actors/algorithms/expected_distance.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

/// The last distance within the bound, of distances that are multiplied by `factor` each time.
double followed(ExpectedDistance expected, double factor) {
  double distance = 1;
  while (distance * factor <= expected.bound() && distance < 1e12)
    expected.learn(distance *= factor);
  return distance;
}

}  // namespace

TEST_CASE(
    "nothing is too far at first, then ten thousand times as far is, and a hundred in the end") {
  ExpectedDistance expected;
  for (const double nothing : {0.0, std::nan(""), HUGE_VAL})
    expected.learn(nothing);
  CHECK_FALSE(expected.known());
  CHECK(expected.bound() == INFINITY);
  expected.learn(2);
  CHECK(expected.bound() == Approx(20000));
  for (int n = 0; n < 8; ++n)
    expected.learn(2);
  CHECK(expected.bound() == Approx(200));
}

TEST_CASE("distances that grow like the cube of time are followed, from a step of nothing on") {
  ExpectedDistance expected;
  for (int n = 1; n < 1000; ++n) {
    const double distance = 1e-6 * n * n * n;
    REQUIRE(distance <= expected.bound());
    expected.learn(distance);
  }
}

TEST_CASE("distances that double are not followed for long, whatever was known before") {
  ExpectedDistance young, settled;
  young.learn(1);
  for (int n = 0; n < 100; ++n)
    settled.learn(1);
  CHECK(followed(settled, 4) < 1e3);
  CHECK(followed(settled, 2) < 1e3);
  CHECK(followed(young, 4) < 1e5);
  CHECK(followed(young, 2) < 1e5);
  CHECK(followed(settled, 1.1) >= 1e12);  // an eighth an exchange may be honest
}

TEST_CASE("ranks that were apart for long meet again: what is left out raises the bound") {
  ExpectedDistance expected;
  for (int n = 0; n < 100; ++n)
    expected.learn(1);
  int left_out = 0;
  for (; 1e5 > expected.bound(); ++left_out)
    expected.learn(1e5);
  CHECK(left_out < 100);
  for (int n = 0; n < 200; ++n)
    expected.learn(1);
  CHECK(expected.bound() < 110);
}
