// When a node does what costs more the more nodes there are.
#include "actors/cluster/pace.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("where nodes are few, what is wanted is due at once, whatever was done before") {
  Pace pace;
  CHECK_FALSE(pace.due(1e9));
  pace.want(5, 9);
  CHECK(pace.due(5));
  pace.done(5);
  CHECK_FALSE(pace.due(1e9));
  pace.want(5, 9);
  CHECK(pace.due(5));
}

TEST_CASE("of many nodes' news the first is due at once, the next a millisecond a node later") {
  Pace pace;
  pace.want(5, 1000);
  CHECK(pace.due(5));
  pace.done(5);
  pace.want(5.25, 1000);
  pace.want(5.5, 1000);  // what comes meanwhile puts nothing off
  CHECK_FALSE(pace.due(5.99));
  CHECK(pace.at() == 6);
  pace.done(6);
  CHECK(std::isinf(pace.at()));
  pace.want(8, 1000);
  CHECK(pace.due(8));
}

TEST_CASE("what is pressing is due at once, however many the nodes are") {
  Pace pace;
  pace.done(5);
  pace.want(5, 1000);
  pace.want_at_once(5.1);
  CHECK(pace.due(5.1));
}

TEST_CASE(
    "what has a least delay waits for it, so that one look serves for news that come at once") {
  Pace pace(0.02);
  pace.want(5, 3);
  pace.want(5.01, 3);
  CHECK_FALSE(pace.due(5.015));
  CHECK(pace.due(5.02));
}
