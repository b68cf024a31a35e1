// StallWatch: reports in, alarms out. Two ranks exchange once a second; the patience is 30 s.
#include "actors/node/stall_watch.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr StallWatch::Run kRun{.patience_s = 30, .exchange_s = 1};

CommunicatorReport rank_with(int rank, std::vector<EdgeCount> edges) {
  CommunicatorReport report;
  report.rank = rank;
  for (const EdgeCount& e : edges)
    report.counts.applied += e.applied;
  report.edges = std::move(edges);
  return report;
}

// Looks every few seconds until `until`, at ranks that `ranks` describes at a time.
template <class Ranks>
std::vector<Alarm> watched(StallWatch& watch, double from, double until, Ranks&& ranks) {
  std::vector<Alarm> all;
  for (double now = from; now <= until; now += watch.period_s())
    for (Alarm& alarm : watch.measure(now, ranks(now), {}))
      all.push_back(std::move(alarm));
  return all;
}

uint64_t count_at(double now) { return static_cast<uint64_t>(now); }

}  // namespace

TEST_CASE("an edge that stops exchanging is an alarm, once, and so is that it goes on") {
  StallWatch watch(kRun);
  const auto stops_for_a_while = [](double now) {
    const double last = now > 100 && now < 300 ? 100 : now, missed = std::min(now, 300.0) - 100;
    const uint64_t count = count_at(now - std::max(0.0, missed));
    return std::vector{rank_with(0, {{1, count, last}, {2, count_at(now), now}}),
                       rank_with(2, {{0, count_at(now), now}})};
  };
  const auto alarms = watched(watch, 0, 400, stops_for_a_while);
  REQUIRE(alarms.size() == 2);
  CHECK(alarms[0].what == Alarm::What::silent_edge);
  CHECK(alarms[0].rank == 0);
  CHECK(alarms[0].peer == 1);
  CHECK(alarms[0].at_s > 200);  // two neighbours: fifty intervals of 2 s
  CHECK(alarms[0].at_s < 215);
  CHECK_THAT(alarms[0].line(), Catch::Contains("edge 0-1: no exchange for 10"));
  CHECK_THAT(alarms[0].reason, Catch::Contains("rank 1 exchanges with no other rank"));
  CHECK(alarms[1].over);
  CHECK(alarms[1].same_place(alarms[0]));
  CHECK_THAT(alarms[1].line(), Catch::EndsWith("edge 0-1: it exchanges again"));
}

TEST_CASE("an edge that never exchanges is an alarm that says so, and passes with the edge") {
  StallWatch watch(kRun);
  const auto joins_and_leaves = [](double now) {
    std::vector<EdgeCount> edges{{1, count_at(now), now}};
    if (now >= 100) edges.push_back({2, 0, -1, now < 250});
    return std::vector{rank_with(0, edges), rank_with(1, {{0, count_at(now), now}}),
                       rank_with(2, {{3, count_at(now), now}})};
  };
  const auto alarms = watched(watch, 0, 300, joins_and_leaves);
  REQUIRE(alarms.size() == 2);
  CHECK(alarms[0].peer == 2);
  CHECK(alarms[0].at_s > 195);
  CHECK_THAT(alarms[0].is, Catch::StartsWith("no exchange yet"));
  CHECK_THAT(alarms[0].reason, Catch::Contains("lost or refused"));
  CHECK(alarms[1].over);
  CHECK_THAT(alarms[1].is, Catch::Contains("left the graph"));
}

TEST_CASE("exchanges that are rare at the start make no later silence longer") {
  StallWatch watch(kRun);
  const auto slow_at_first = [](double now) {  // two in 100 s, then one a second until 1,000 s
    const double last = now < 100 ? 50 * std::floor(now / 50) : std::min(now, 1000.0);
    const double count = now < 100 ? now / 50 : last - 98;
    return std::vector{rank_with(0, {{1, static_cast<uint64_t>(count), last}}),
                       rank_with(1, {{0, static_cast<uint64_t>(count), last}})};
  };
  const auto alarms = watched(watch, 0, 2000, slow_at_first);
  REQUIRE(alarms.size() == 1);
  CHECK(alarms[0].at_s > 1050);
  CHECK(alarms[0].at_s < 1070);
}

TEST_CASE("where exchanges are rare, silence takes longer to be one") {
  const auto every = [](double period_s) {  // until 1,000 s
    return [period_s](double now) {
      const double count = std::floor(std::min(now, 1000.0) / period_s);
      return std::vector{rank_with(0, {{1, count_at(count), count * period_s}})};
    };
  };
  StallWatch expected({.patience_s = 30, .exchange_s = 100}), measured(kRun);
  CHECK(watched(expected, 0, 5900, every(100)).empty());
  CHECK(watched(expected, 5905, 6100, every(100)).size() == 1);
  CHECK(watched(measured, 0, 1400, every(10)).empty());
  CHECK(watched(measured, 1405, 1600, every(10)).size() == 1);
}

TEST_CASE("a process that stood still itself accuses nobody") {
  StallWatch watch(kRun);
  const auto both = [](double now) {
    const double last = now > 50 ? 50 : now;
    return std::vector{rank_with(0, {{1, count_at(last), last}})};
  };
  CHECK(watched(watch, 0, 50, both).empty());
  CHECK(watched(watch, 500, 540, both).empty());
  CHECK(watched(watch, 545, 700, both).size() == 1);
}

TEST_CASE("an alarm of an edge outlasts a standstill of this process, until the edge exchanges") {
  StallWatch watch(kRun);
  const auto stops_for_a_while = [](double now) {
    const double last = now > 50 && now < 400 ? 50 : now;
    return std::vector{rank_with(0, {{1, count_at(last), last}})};
  };
  REQUIRE(watched(watch, 0, 200, stops_for_a_while).size() == 1);
  CHECK(watched(watch, 300, 395, stops_for_a_while).empty());
  const auto alarms = watched(watch, 400, 410, stops_for_a_while);
  REQUIRE(alarms.size() == 1);
  CHECK_THAT(alarms[0].line(), Catch::EndsWith("edge 0-1: it exchanges again"));
}

TEST_CASE("a rank that waits more than it computes is an alarm, unless it was told to wait") {
  const auto reports = [](double now) {
    const double slow = std::min(std::max(0.0, now - 60), 120.0);  // it waits from 60 s to 180 s
    return std::vector<WorkerReport>{{.rank = 4, .idle_s = 0.9 * slow, .alive_s = now},
                                     {.rank = 5, .idle_s = 0.1 * now, .alive_s = now}};
  };
  const auto alarms_of = [&](const StallWatch::Run& run) {
    StallWatch watch(run);
    std::vector<Alarm> all;
    for (double now = 0; now <= 400; now += watch.period_s())
      for (Alarm& alarm : watch.measure(now, {}, reports(now)))
        all.push_back(std::move(alarm));
    return all;
  };
  StallWatch::Run run = kRun;
  run.waits = true;
  const auto alarms = alarms_of(run);
  REQUIRE(alarms.size() == 2);
  CHECK(alarms[0].rank == 4);
  CHECK_THAT(alarms[0].line(),
             Catch::Contains("at 120 s rank 4: it waited for 90 % of the last 60 s"));
  CHECK_THAT(alarms[0].reason, Catch::Contains("slower neighbours"));
  CHECK(alarms[1].over);
  CHECK(alarms[1].rank == 4);
  run.paced = true;
  CHECK(alarms_of(run).empty());
}

TEST_CASE("an edge whose exchanges become four times as rare is an alarm, until they come again") {
  const auto slows_down = [](double slow) {  // from 200 s to 600 s rank 1 is as many times slower
    return [slow](double now) {
      const auto rank_one = [&](double pace) {
        const double part = std::min(std::max(0.0, now - 200), 400.0);
        return count_at(pace * (now - part + part / slow));
      };
      return std::vector{rank_with(0, {{1, rank_one(1), now}, {3, count_at(now), now}}),
                         rank_with(1, {{0, rank_one(1), now}, {2, rank_one(0.6), now}}),
                         rank_with(2, {{1, rank_one(0.6), now}, {3, count_at(now), now}})};
    };
  };
  StallWatch watch(kRun), patient(kRun), in_rounds({.patience_s = 30, .waits = true});
  const auto alarms = watched(watch, 0, 1000, slows_down(6));
  REQUIRE(alarms.size() == 4);
  for (size_t k = 0; k < 4; ++k) {
    INFO(alarms[k].line());
    CHECK(alarms[k].what == Alarm::What::stale_edge);
    CHECK(alarms[k].rank == static_cast<int>(k % 2));
    CHECK(alarms[k].peer == static_cast<int>(k % 2 + 1));
    CHECK(alarms[k].over == (k >= 2));
  }
  CHECK(alarms[0].at_s >= 260);
  CHECK(alarms[0].at_s <= 320);
  CHECK_THAT(alarms[0].line(),
             Catch::Contains("edge 0-1: its exchanges have become rare: one every 6"));
  CHECK_THAT(alarms[0].reason, Catch::StartsWith("rank 1 is slower with all its neighbours"));
  CHECK_THAT(alarms[2].line(), Catch::EndsWith("edge 0-1: it exchanges as often as before"));
  CHECK(watched(patient, 0, 1000, slows_down(3)).empty());
  CHECK(watched(in_rounds, 0, 1000, slows_down(6)).empty());
}

TEST_CASE("an edge is judged anew when its ends have other neighbours, or another life") {
  StallWatch watch(kRun);
  const auto shares_and_restarts = [](double now) {
    const double rare = now < 200 ? now : now < 600 ? 200 + (now - 200) / 6 : (now - 600) / 6;
    std::vector<EdgeCount> edges{{1, count_at(rare), now}};
    if (now >= 200) edges.push_back({2, count_at(now), now});
    return std::vector{rank_with(0, edges)};
  };
  CHECK(watched(watch, 0, 1200, shares_and_restarts).empty());
}
