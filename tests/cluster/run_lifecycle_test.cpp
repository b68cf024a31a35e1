// A node's way through a run, phase by phase.
#include "actors/cluster/run_lifecycle.hpp"

#include <functional>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

using Phase = RunLifecycle::Phase;

Member member(const std::string& node, uint32_t first_rank, uint32_t ranks = 2) {
  Member m;
  m.node = node;
  m.incarnation = 1;
  m.first_rank = first_rank;
  m.ranks = ranks;
  m.ready = false;
  m.address = node + ":1";
  return m;
}

struct Node {
  explicit Node(const LifecycleOptions& options, uint32_t first_rank = 0)
      : lifecycle(options), table(member("a", first_rank), {0, "", "ring"}) {}

  LifecycleEffects at(double now) {
    LifecycleEffects out;
    lifecycle.consider(now, table, out);
    return out;
  }
  void hear(Member m) { REQUIRE(table.merge(m).news); }
  void hear_changed(const std::string& node, const std::function<void(Member&)>& change) {
    Member m = table.at(*table.find(node));
    ++m.refutations;
    change(m);
    hear(m);
  }

  RunLifecycle lifecycle;
  MemberTable table;
};

LifecycleOptions founder() { return {4, 15, {}}; }
LifecycleOptions joiner() { return {4, 15, {"b:1"}}; }

// One that trains, beside b.
Node training() {
  Node node(founder());
  node.lifecycle.start(0);
  node.hear(member("b", 2));
  REQUIRE(node.at(0).begin);
  return node;
}

}  // namespace

TEST_CASE("nothing happens before the start, and a founder then waits for all ranks") {
  Node node(founder());
  CHECK_FALSE(node.at(0).begin);
  CHECK(node.lifecycle.phase() == Phase::awaiting);
  node.lifecycle.start(0);
  CHECK_FALSE(node.at(0).begin);
  CHECK(node.lifecycle.phase() == Phase::joining);
  node.hear(member("b", 2));
  const LifecycleEffects out = node.at(1);
  CHECK(out.begin);
  CHECK_FALSE(out.fetch);
  CHECK_FALSE(node.at(1).begin);  // once
}

TEST_CASE("who waits in vain begins with those that are there, at the deadline that it was told") {
  Node node(founder());
  node.lifecycle.start(3);
  CHECK_FALSE(node.at(17.9).begin);
  CHECK(node.at(18).begin);
}

TEST_CASE("a joiner that meets nobody fails with the reason, once its patience is over") {
  Node node(joiner(), kAnyRank);
  node.lifecycle.start(0);
  for (int k = 0; k < 5; ++k)
    node.lifecycle.dial_failed("b:1", "connection refused", false);
  CHECK(node.at(15).failure.empty());
  CHECK(node.at(15.1).failure == "no node answers at b:1: connection refused");
  CHECK(node.lifecycle.phase() == Phase::over);
  LifecycleOptions told = joiner();
  told.joins_are = "process 0 of 2";
  Node by_environment(told, kAnyRank);
  by_environment.lifecycle.start(0);
  CHECK(by_environment.at(15.1).failure == "no node answers at b:1 (process 0 of 2)");
}

TEST_CASE("a joiner whom all addresses turn away for what it is fails at once, and not before") {
  LifecycleOptions two = joiner();
  two.joins.push_back("c:1");
  Node node(two, kAnyRank);
  node.lifecycle.start(0);
  const auto refuse = [&](const char* address) {
    node.lifecycle.dial_failed(address, "another run: x at b, y at a", true);
  };
  for (int k = 0; k < 5; ++k)
    refuse("b:1");
  CHECK(node.at(1).failure.empty());  // c may be of this run
  refuse("c:1");
  refuse("c:1");
  node.lifecycle.dial_failed("c:1", "no answer in time", false);  // another process by now
  refuse("c:1");
  CHECK(node.at(1).failure.empty());
  refuse("c:1");
  CHECK(node.at(1).failure.empty());
  refuse("c:1");
  CHECK(node.at(1).failure == "refused by b:1: another run: x at b, y at a");
  CHECK(node.lifecycle.phase() == Phase::over);
}

TEST_CASE("a joiner that gets no ranks waits for a minute beyond its patience, and then fails") {
  Node none(joiner(), kAnyRank), overlapped(joiner(), 4);
  Member b = member("b", 4);
  b.ready = true;  // so of the two, b has them
  overlapped.hear(b);
  REQUIRE(overlapped.table.move_to());
  for (Node* node : {&none, &overlapped}) {
    node->lifecycle.start(0);
    node->lifecycle.met();
    CHECK(node->at(75).failure.empty());
    CHECK(node->lifecycle.phase() == Phase::joining);
    CHECK(node->at(75.1).failure ==
          "no ranks for this node: for 75 s the other nodes have claimed all that it could take");
    CHECK(node->lifecycle.phase() == Phase::over);
  }
}

TEST_CASE(
    "a joiner of a run that has begun fetches first, and begins with what it got or did not") {
  LifecycleOptions late = joiner();
  late.total_ranks = 2;  // what it serves is not among those
  Node node(late, 2);
  node.lifecycle.start(0);
  CHECK_FALSE(node.at(0).fetch);
  node.lifecycle.met();
  Member b = member("b", 0);
  b.ready = true;
  node.hear(b);
  CHECK(node.at(0).fetch);
  CHECK_FALSE(node.at(1).begin);
  node.lifecycle.fetched();
  CHECK(node.at(1).begin);
  CHECK(node.lifecycle.phase() == Phase::training);
}

TEST_CASE("one of those that all wait for begins at the start, though another has begun already") {
  Node node(joiner(), 2);
  node.lifecycle.start(0);
  node.lifecycle.met();
  Member b = member("b", 0);
  b.ready = true;
  node.hear(b);
  const LifecycleEffects out = node.at(0);
  CHECK(out.begin);
  CHECK_FALSE(out.fetch);
}

TEST_CASE("the end comes when all ranks of all nodes have done their share") {
  Node node = training();
  node.hear(member("c", 4, 0));  // it has none
  node.lifecycle.share_done();
  CHECK_FALSE(node.at(1).drain);
  node.hear_changed("b", [](Member& m) { m.finished = true; });
  CHECK_FALSE(node.at(1).drain);  // of its own record, too
  node.hear_changed("a", [](Member& m) { m.finished = true; });
  CHECK(node.at(1).drain);
  CHECK_FALSE(node.at(1).average);
  node.lifecycle.drained(false);
  CHECK(node.at(2).average);
  CHECK_FALSE(node.at(100).leave);
  node.lifecycle.averaged({});
  CHECK(node.at(100).leave);
}

TEST_CASE("a stop ends a run in whatever phase a node is") {
  Node node = training();
  node.lifecycle.stop();
  CHECK(node.at(1).drain);
  Node waiting(founder());
  waiting.lifecycle.start(0);
  waiting.lifecycle.stop();
  const LifecycleEffects out = waiting.at(0);
  CHECK((out.drain && !out.begin));
  waiting.lifecycle.drained(false);
  const LifecycleEffects ended = waiting.at(0);
  CHECK((ended.leave && !ended.average));  // it has nothing to add
}

TEST_CASE("a node that leaves weighs what that changes, drains and trades no mean") {
  Node node = training();
  node.lifecycle.leave();
  CHECK(node.at(1).weigh);
  CHECK_FALSE(node.at(5.9).drain);
  CHECK(node.at(6).drain);  // in vain
  node.lifecycle.drained(false);
  const LifecycleEffects out = node.at(7);
  CHECK((out.leave && !out.average));
  CHECK_FALSE(node.at(7).conclude);
  CHECK(node.at(7.2).conclude);
}

TEST_CASE("a node whose ranks have failed leaves the others at once") {
  Node node = training();
  node.lifecycle.drained(true);
  const LifecycleEffects out = node.at(1);
  CHECK((out.leave && !out.average));
}

TEST_CASE("a node that has its mean stays for the others, until they have gone too") {
  Node node = training();
  node.lifecycle.drained(false);
  node.at(1);
  node.lifecycle.averaged({});
  CHECK_FALSE(node.at(1).conclude);
  node.lifecycle.gone("b");
  CHECK(node.at(1.1).conclude);
}

TEST_CASE("a node that has its mean stays for two seconds at most") {
  Node node = training();
  node.lifecycle.drained(false);
  node.at(1);
  node.lifecycle.averaged({});
  node.at(1);
  CHECK_FALSE(node.at(2.9).conclude);
  CHECK(node.at(3).conclude);
  CHECK_FALSE(node.at(4).conclude);
}

TEST_CASE(
    "a node whose time is over leaves those who train on; who has ended, or is gone, is missing") {
  const auto after_its_time = [](const std::function<void(Node&)>& happens) {
    Node node = training();
    node.hear_changed("b", [](Member& m) { m.ready = true; });
    node.lifecycle.stop();
    CHECK(node.at(1).drain);
    node.lifecycle.drained(false);
    CHECK(node.at(1).average);
    happens(node);
    node.lifecycle.averaged({"b"});
    return node.at(16);
  };
  const LifecycleEffects alone = after_its_time([](Node&) {});
  CHECK((alone.goes_alone && alone.leave));
  const LifecycleEffects finished = after_its_time(
      [](Node& node) { node.hear_changed("b", [](Member& m) { m.finished = true; }); });
  CHECK((!finished.goes_alone && finished.leave));
  const LifecycleEffects dead = after_its_time(
      [](Node& node) { node.hear_changed("b", [](Member& m) { m.state = MemberState::dead; }); });
  CHECK((!dead.goes_alone && dead.leave));
  const auto suspected = [](Node& node) {
    node.hear_changed("b", [](Member& m) { m.state = MemberState::suspect; });
  };
  const LifecycleEffects silent = after_its_time(suspected);  // it may train on all the same
  CHECK((!silent.goes_alone && !silent.leave));
  const LifecycleEffects alive_after_all = after_its_time([&](Node& node) {
    suspected(node);
    node.hear_changed("b", [](Member& m) { m.state = MemberState::alive; });
  });
  CHECK(alive_after_all.goes_alone);
  const LifecycleEffects told =
      after_its_time([](Node& node) { node.hear_changed("b", [](Member& m) { m.stops = true; }); });
  CHECK((!told.goes_alone && told.leave));
}

TEST_CASE("a member that is a suspect without end keeps nobody from an end") {
  Node node = training();
  node.hear_changed("b", [](Member& m) { m.ready = true; });
  node.lifecycle.stop();
  node.at(1);
  node.lifecycle.drained(false);
  CHECK(node.at(1).average);
  node.lifecycle.averaged({"b"});
  int leaves = 0;
  for (int k = 1; k <= 60; ++k) {
    node.hear_changed("b", [](Member& m) {
      ++m.refutations;
      m.state = MemberState::suspect;
    });
    leaves += node.at(1 + k).leave;
    CHECK((leaves == 0 || k > 10));  // an honest one is known to be alive or dead by then
  }
  CHECK(leaves == 1);
}
