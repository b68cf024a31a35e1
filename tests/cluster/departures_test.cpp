// A node's counts of the ranks that a run has lost.
#include "actors/cluster/departures.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

/// Ranks 4 and 5, of six.
Member gone(MemberState state) {
  Member m;
  m.node = std::string(1, 'c');
  m.state = state;
  m.first_rank = 4;
  m.ranks = 2;
  return m;
}

StateReport seen(std::vector<EdgeDistance> distances) { return {std::move(distances), 0, {}}; }

}  // namespace

TEST_CASE("a departure is told once all state actors have told what they saw of its ranks") {
  Departures departures;
  const uint64_t number = departures.open(gone(MemberState::dead), 6, 12.5, 2);
  CHECK_FALSE(departures.told(number, seen({{0, 4, 3}, {0, 1, 100}})));  // the last is of others
  const auto told = departures.told(number, seen({{1, 5, 4}, {1, 6, 100}, {1, 3, 100}}));
  REQUIRE(told);
  CHECK(told->node == "c");
  CHECK_FALSE(told->polite);
  CHECK(told->ranks == 2);
  CHECK(told->of == 6);
  CHECK(told->at_s == 12.5);
  CHECK(told->mean_changed_by == Approx(std::sqrt((9 + 16) / 2.0) * 2 / 6));
  CHECK_FALSE(departures.told(number, seen({})));  // it is over
}

TEST_CASE("of ranks that nobody here has exchanged with, it is not known what their loss moves") {
  Departures departures;
  const auto told = departures.told(departures.open(gone(MemberState::left), 6, 0, 1), seen({}));
  REQUIRE(told);
  CHECK(told->polite);
  CHECK(std::isnan(told->mean_changed_by));
  CHECK(departures.record(*told) == "2 of 6 ranks have left with c");
}

TEST_CASE("who leaves politely moves the mean as who dies does") {
  Departures departures;
  const auto told =
      departures.told(departures.open(gone(MemberState::left), 6, 0, 1), seen({{0, 4, 3}}));
  REQUIRE(told);
  CHECK(told->mean_changed_by == Approx(1));
}

TEST_CASE("departures at the same time are told apart, and the last hundred are kept") {
  Departures departures;
  const uint64_t first = departures.open(gone(MemberState::dead), 6, 1, 1);
  const uint64_t second = departures.open(gone(MemberState::dead), 4, 2, 1);
  CHECK(departures.told(second, seen({{0, 4, 4}}))->of == 4);
  CHECK(departures.told(first, seen({{0, 4, 3}}))->mean_changed_by == Approx(1));
  for (int k = 0; k < 101; ++k)
    departures.record({std::to_string(k), true, 1, 8, 0, 0.25});
  REQUIRE(departures.kept().size() == 100);
  CHECK(departures.kept().front().node == "1");
  CHECK(departures.record({"d", true, 1, 8, 0, 0.25}) ==
        "1 of 8 ranks have left with d, the mean moves by 0.25");
}
