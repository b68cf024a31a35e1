// The change that a far peer may cause: the promises of actors/guard/guard.hpp, one per test.
#include "actors/guard/guard.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

using Verdict = Guard::Verdict;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A rank of two neighbours that has taken `steps` steps of this length, and exchanged since.
Guard stepped(double length, int steps = 40) {
  Guard guard;
  guard.meet(std::array{1, 9});
  for (int k = 0; k < steps; ++k)
    guard.stepped(length);
  for (const int peer : {1, 9})
    guard.judge(peer, 0, guard.limits(peer), {});
  guard.end_exchange();
  return guard;
}

Guard::Judgement judge(Guard& guard, double distance, int peer = 1) {
  const Guard::Judgement judged = guard.judge(peer, distance, guard.limits(peer), {});
  guard.end_exchange();
  return judged;
}

}  // namespace

TEST_CASE("what is within three times four usual steps and the own way is taken whole") {
  Guard guard = stepped(2);
  CHECK(guard.limits(1).bound == Approx(3 * 4 * 2));
  CHECK(judge(guard, 23.9).share == 1);
  CHECK(judge(guard, 24.1).verdict == Verdict::far);
  guard.stepped(2);
  CHECK(guard.limits(1).bound == Approx(3 * (4 * 2 + 2)));
  CHECK(guard.at(1).used > 0);
}

TEST_CASE("a rank is apart that is far from all its neighbours, unless that is their doing") {
  const auto judged = [](Guard& guard, int peer, double distance, double their_usual) {
    guard.judge(peer, distance, guard.limits(peer),
                {static_cast<float>(12 * their_usual), static_cast<float>(64 * their_usual)});
  };
  Guard of_two = stepped(1);
  CHECK_FALSE(of_two.apart_by());
  judged(of_two, 1, 1e6, 1);
  CHECK_FALSE(of_two.apart_by());  // the other neighbour is near
  judged(of_two, 9, 5e5, 1);
  REQUIRE(of_two.apart_by());
  CHECK(*of_two.apart_by() == Approx(5e5));
  judged(of_two, 9, 6e4, 1);  // far, and as ranks with other data may be
  CHECK_FALSE(of_two.apart_by());
  for (const int peer : {1, 9})
    judged(of_two, peer, 1e8, 100);  // they step a hundred times as far: it is they who are off
  CHECK_FALSE(of_two.apart_by());
  judged(of_two, 9, 1e6, 0.01);
  CHECK(of_two.apart_by());
  of_two.meet(std::array{1});  // of one neighbour: the longer steps decide
  CHECK_FALSE(of_two.apart_by());
  judged(of_two, 1, 1e6, 1);
  CHECK_FALSE(of_two.apart_by());
  judged(of_two, 1, 1e6, 0.01);
  CHECK(of_two.apart_by());
  of_two.meet({});
  CHECK_FALSE(of_two.apart_by());
}

TEST_CASE("a rank reaches a thousand times its way and its allowance, if it has stepped") {
  CHECK(std::isinf(Guard().reach()));
  CHECK(std::isinf(Guard(false).reach()));
  CHECK(stepped(2, 40).reach() == Approx(1000 * (64 * 2 + 80)));
  CHECK(std::isinf(stepped(0).reach()));
}

TEST_CASE("an exchange ends the way, of other edges up to their share, if it is finite") {
  Guard guard = stepped(1);
  guard.stepped(1);
  judge(guard, kInfinity);
  CHECK(guard.limits(1).bound == Approx(15));
  judge(guard, 0, 1);
  CHECK(guard.limits(1).bound == Approx(12));
  CHECK(guard.limits(9).bound == Approx(3 * (4 + 0.5)));
  guard.meet(std::array{1, 9, 4});  // its way begins where the edge does
  CHECK(guard.limits(4).bound == Approx(12));
}

TEST_CASE("who was long without exchanges on an edge is as near as both have moved on its share") {
  Guard guard = stepped(1);
  for (int k = 0; k < 200; ++k) {
    guard.stepped(1);
    judge(guard, 0, 1);
  }
  CHECK(guard.limits(1).bound == Approx(12));
  CHECK(guard.limits(9).bound == Approx(3 * (4 + 200.0 / 2)));
  judge(guard, 1e6, 9);  // far, and an exchange
  CHECK(guard.limits(9).bound == Approx(12));
}

TEST_CASE("all messages of a round have the same way, and it ends with the round") {
  Guard guard = stepped(1);
  guard.stepped(1);
  for (const int peer : {1, 9}) {
    CHECK(guard.limits(peer).bound == Approx(15));
    guard.judge(peer, 0, guard.limits(peer), {});
  }
  guard.end_exchange();
  CHECK(guard.limits(1).bound == Approx(12));
  guard.stepped(1);
  guard.end_exchange();  // of a round without a message
  CHECK(guard.limits(1).bound == Approx(15));
}

TEST_CASE(
    "whoever has not stepped yet ends no way: its first exchange is as near as it was alone") {
  Guard guard = stepped(1);
  for (int k = 0; k < 100; ++k) {
    guard.stepped(1);
    CHECK(guard.judge(1, 50, guard.limits(1), {0, 0}).verdict == Verdict::untested);
    guard.end_exchange();
  }
  CHECK(judge(guard, 300).verdict == Verdict::near);
}

TEST_CASE("far jumps of an edge sum to 64 usual steps and an eighth of a step each step after") {
  Guard guard = stepped(1);
  double moved = 0;
  for (int k = 0; k < 1000; ++k)
    moved += judge(guard, 1e6).share * 1e6;
  CHECK(moved == Approx(64));
  for (int k = 0; k < 160; ++k) {
    guard.stepped(1);
    moved += judge(guard, 1e6).share * 1e6;
  }
  CHECK(moved == Approx(64 + 160.0 / 8 / 2));
}

TEST_CASE("a rank that most neighbours are far from is moved by more than its own steps") {
  Guard guard = stepped(1);
  for (int k = 0; k < 100; ++k) {
    judge(guard, 1e6, 1);
    judge(guard, 1e6, 9);
  }
  double moved = 0;
  for (int k = 0; k < 100; ++k) {
    guard.stepped(1);
    for (const int peer : {1, 9})
      moved += judge(guard, 1e6, peer).share * 1e6;
  }
  CHECK(moved == Approx(3 * 100));
  judge(guard, 0, 9);  // one of two is no majority
  guard.stepped(1);
  CHECK(judge(guard, 1e6, 1).share * 1e6 == Approx(1.0 / 8 / 2));
}

TEST_CASE("a distance that the allowance covers is closed in one jump") {
  Guard guard = stepped(1);
  const Guard::Judgement judged = judge(guard, 30);
  CHECK(judged.verdict == Verdict::far);
  CHECK(judged.share == 1);
  CHECK(guard.limits(1).allowance == Approx(34));
}

TEST_CASE("a peer that is near again is taken whole at once, whatever it sent before") {
  Guard guard = stepped(1);
  for (int k = 0; k < 100; ++k)
    for (const double far : {1e30, kInfinity, std::nan(""), 1e3})
      judge(guard, far);
  CHECK(judge(guard, 11).share == 1);
}

TEST_CASE("what is not finite moves nothing, charges nothing and changes no limit") {
  Guard guard = stepped(1);
  const Limits before = guard.limits(1);
  for (const double none : {std::nan(""), kInfinity}) {
    const Guard::Judgement judged = judge(guard, none);
    CHECK(judged.verdict == Verdict::not_finite);
    CHECK(judged.share == 0);
  }
  CHECK(guard.limits(1) == before);
}

TEST_CASE("a peer can use up the allowance of its own edge alone, and raise no bound") {
  Guard guard = stepped(1);
  for (int k = 0; k < 100; ++k)
    judge(guard, 1e9, 5);
  CHECK(guard.limits(5).allowance == 0);
  CHECK(guard.limits(1) == stepped(1).limits(1));
}

TEST_CASE("both ends take one share, by the smaller of both bounds and allowances") {
  Guard small = stepped(1), large = stepped(100);
  const Limits of_small = small.limits(1), of_large = large.limits(0);
  const double there = large.judge(0, 500, of_large, of_small).share;
  CHECK(small.judge(1, 500, of_small, of_large).share == there);
  CHECK(there == Approx(64.0 / 500));
  CHECK(small.at(1).used == Approx(64));
  CHECK(large.at(0).used == Approx(0.64));
}

TEST_CASE(
    "before its first step a rank is moved by nothing that differs, and by what it copied after") {
  Guard fresh;
  CHECK(judge(fresh, 0).share == 1);
  CHECK(judge(fresh, 1e-12).verdict == Verdict::untested);
  CHECK(judge(fresh, 1e-12).share == 0);
  Guard other = stepped(1);
  CHECK(other.judge(1, 1, other.limits(1), fresh.limits(0)).share == 0);
  CHECK(other.at(1).used == 0);
  Guard clone;
  clone.inherit(2);
  CHECK(clone.limits(1).bound == Approx(24));
  Guard copy_of_clone;
  copy_of_clone.inherit(clone.record().usual_step());
  CHECK(copy_of_clone.limits(1).bound == Approx(24));
  for (int k = 0; k < 32; ++k)
    clone.stepped(0.5);
  CHECK(clone.usual_step() == Approx(0.5));
  CHECK(clone.record().usual_step() == Approx(0.5));
}

TEST_CASE("the usual step rises with the last 32 steps, fades by a 1024th a step, and rests") {
  Guard guard = stepped(1);
  for (int k = 0; k < 32; ++k)
    guard.stepped(0);
  CHECK(guard.usual_step() == Approx(std::pow(1 - 1.0 / 1024, 32)).epsilon(0.05));
  const double rests = guard.usual_step();
  for (int k = 0; k < 1000; ++k)
    judge(guard, 1);
  CHECK(guard.usual_step() == rests);
  guard.stepped(10);
  CHECK(guard.usual_step() > 1.5);
}

TEST_CASE("on an edge the usual step fades for 1,024 steps after a comparison, and no longer") {
  Guard guard = stepped(1);
  for (int k = 0; k < 4096; ++k) {
    guard.stepped(1e-6);
    if (k % 512 == 0) judge(guard, 0, 9);
  }
  const double allowance = static_cast<double>(guard.limits(1).allowance);
  CHECK(allowance / Guard::kAllowance == Approx(std::exp(-1)).epsilon(0.05));
  CHECK(static_cast<double>(guard.limits(9).allowance) < 0.1 * allowance);
  CHECK(guard.usual_step() < 0.1);
  judge(guard, 10);  // far: the edge fades again
  for (int k = 0; k < 1024; ++k)
    guard.stepped(1e-6);
  guard.at(1).used = 0;
  CHECK(static_cast<double>(guard.limits(1).allowance) ==
        Approx(std::exp(-1) * allowance).epsilon(0.05));
}

TEST_CASE("an edge keeps the usual step of a rank that has trained alone") {
  Guard guard;
  guard.meet(std::array{1, 9});
  for (int k = 0; k < 10'000; ++k) {
    guard.stepped(std::exp(-k / 100.0));
    judge(guard, k == 0 ? 0 : 1, 9);
    guard.judge(1, 1, guard.limits(1), {0, 0});  // the other end has not stepped yet
  }
  CHECK(guard.usual_step() < 1e-3);
  CHECK(guard.limits(1).allowance == 64);
  CHECK(guard.limits(9).allowance < 1);
}

TEST_CASE("steps that are rounding alone are as usual as a millionth of the largest") {
  Guard guard = stepped(1);
  for (int k = 0; k < 100'000; ++k)
    guard.stepped(1e-17);
  CHECK(guard.usual_step() == Approx(1e-6));
  judge(guard, 0);
  CHECK(judge(guard, 1e-6).verdict == Verdict::near);
}

TEST_CASE("an objective without steps has no bound") {
  Guard guard(false);
  CHECK(guard.limits(1) == Limits{});
  CHECK(judge(guard, 1e300).share == 1);
  CHECK(judge(guard, kInfinity).share == 0);
}

TEST_CASE("steps of no length say nothing: there is no bound until one has a length") {
  Guard guard;
  CHECK(judge(guard, 1).share == 0);
  guard.stepped(0);
  CHECK(judge(guard, 1e9).share == 1);
  guard.stepped(1);
  CHECK(judge(guard, 1e9).share < 1);
}

TEST_CASE("a message that stands for many ranks may be as many times as far, and older") {
  const Guard guard = stepped(1);
  CHECK(guard.limits(1, 1).bound == Approx(12));
  CHECK(guard.limits(1, 5).bound == Approx(5 * 3 * (4 + 4)));
}

TEST_CASE("what a rank adds to a sum is scaled where it is far beyond what it usually adds") {
  Guard guard;
  CHECK(guard.judge_own(5).share == 1);
  for (int k = 0; k < 40; ++k)
    CHECK(guard.judge_own(k % 2 == 0 ? 1 : 3).share == 1);
  CHECK(guard.judge_own(std::nan("")).verdict == Verdict::not_finite);
  const Guard::Judgement far = guard.judge_own(1e6);
  CHECK(far.verdict == Verdict::far);
  CHECK(far.share * 1e6 <= 64 * 5);
  double added = 0;
  for (int k = 0; k < 100; ++k)
    added += guard.judge_own(1e6).share * 1e6;
  CHECK(added < 300);
  int scaled = 0;
  while (guard.judge_own(100).share < 1 && scaled < 1000)
    ++scaled;
  CHECK(scaled < 400);  // gradients that have grown for good are whole again
}

TEST_CASE("a rank that goes on from a record has the same guard, and the longest way everywhere") {
  Guard guard = stepped(1, 7);
  judge(guard, 100, 9);
  judge(guard, 0, 1);
  guard.stepped(2);
  Guard later;
  later.meet(std::array{1, 9});
  later.recall(guard.record());
  for (const int peer : {1, 9})
    CHECK(later.limits(peer) == guard.limits(peer));
  guard.stepped(4);
  later.stepped(4);
  for (const int peer : {1, 9})
    CHECK(later.limits(peer) == guard.limits(peer));
}
