// Which mean of a snapshot begins when, and whom it answers.
#include "actors/cluster/mean_orders.hpp"

#include "tests/catch.hpp"

using namespace grapevine;

using Asked = MeanOrders::Asked;

TEST_CASE("who asks first has a mean spread, and who asks before it begins shares it") {
  MeanOrders orders;
  CHECK(orders.ask() == Asked::first);
  CHECK(orders.ask() == Asked::first);  // it has not begun: perhaps nobody has heard
  CHECK(orders.wanted(1) == 1u);
  const auto [answered, more] = orders.finished(1);
  CHECK(answered == 2);
  CHECK_FALSE(more);
}

TEST_CASE("who asks while a mean is under way waits for the next, which is then spread") {
  MeanOrders orders;
  orders.ask();
  orders.wanted(1);
  CHECK(orders.ask() == Asked::shares);
  CHECK(orders.finished(1).answered == 1);
  CHECK(orders.wanted(1) == std::nullopt);  // it is over
  orders.ask();
  CHECK(orders.wanted(2) == 2u);
  const auto [answered, more] = orders.finished(2);
  CHECK(answered == 2);
  CHECK_FALSE(more);
}

TEST_CASE("of a mean that finishes with some left to answer it is said that another is wanted") {
  MeanOrders orders;
  orders.wanted(7);  // of another node: nobody here waits for it
  orders.ask();
  const auto [answered, more] = orders.finished(7);
  CHECK(answered == 0);
  CHECK(more);
}

TEST_CASE("a newer mean takes the place of one under way, and answers those who waited for it") {
  MeanOrders orders;
  orders.ask();
  CHECK(orders.wanted(1) == 1u);
  CHECK(orders.wanted(3) == 3u);
  CHECK(orders.finished(1).answered == 0);  // it is another that is under way
  CHECK(orders.finished(3).answered == 1);
}

TEST_CASE("each request is another serial, whichever number it has; none is no mean") {
  MeanOrders orders;
  CHECK(orders.wanted(0) == std::nullopt);
  CHECK(orders.wanted(9) == 9u);
  CHECK(orders.wanted(9) == std::nullopt);
  CHECK(orders.wanted(2) == 2u);
  orders.ask();
  CHECK(orders.finished(2).answered == 0);
  CHECK(orders.wanted(9) == 9u);
  CHECK(orders.finished(9).answered == 1);
}

TEST_CASE("no more than sixty-four wait, and who has been answered makes room") {
  MeanOrders orders;
  for (int k = 0; k < 64; ++k)
    CHECK(orders.ask() != Asked::refused);
  CHECK(orders.ask() == Asked::refused);
  orders.wanted(1);
  CHECK(orders.finished(1).answered == 64);
  CHECK(orders.ask() == Asked::first);
}
