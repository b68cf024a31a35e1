// The pairwise conversation, frame by frame: two ends that a test carries the frames between.
#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "actors/transport/transport.hpp"
#include "kernels/base/random.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/conversations/talker.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

std::string kinds(const Sends& sends) {
  static const char* const names[] = {"offer", "accept", "decline", "data", "ack", "ask", "chunk"};
  std::string list;
  for (const Send& s : sends)
    list += (list.empty() ? "" : " ") + std::string(names[static_cast<int>(s.header.kind)]);
  return list;
}

Sends hear_all(Talker& talker, double now, const Sends& frames) {
  Sends answers;
  for (const Send& frame : frames)
    for (const Send& s : talker.hear(now, frame))
      answers.push_back(s);
  return answers;
}

/// One number of the edge 0-1 after the other, until nobody has anything to say.
void talk(Talker& zero, Talker& one, double now, Sends from_zero) {
  for (int turns = 0; !from_zero.empty(); ++turns) {
    REQUIRE(turns < 100);
    from_zero = hear_all(zero, now, hear_all(one, now, from_zero));
  }
}

}  // namespace

TEST_CASE("offer, accept and data, jump, ack: six frames and both ends have applied once") {
  Talker zero(0, {1}), one(1, {0});
  const Sends offer = zero.due();
  REQUIRE(kinds(offer) == "offer");
  const double now = zero.wakes_at() + 0.01;
  const Sends yes = one.hear(now, offer[0]);
  REQUIRE(kinds(yes) == "accept data");
  const Sends data = zero.hear(now, yes[0]);
  REQUIRE(kinds(data) == "data");
  const Sends first = zero.hear(now, yes[1]), second = one.hear(now, data[0]);
  CHECK(kinds(first) == "ack");
  CHECK(kinds(second) == "ack");
  CHECK_FALSE(zero.quiet());  // it does not know yet that the other end has applied
  zero.hear(now, second[0]);
  one.hear(now, first[0]);
  for (const Talker* end : {&zero, &one}) {
    CHECK(end->quiet());
    CHECK(end->jumps().size() == 1u);
  }
}

TEST_CASE("two crossing offers are one exchange, and no accept is needed") {
  Talker zero(0, {1}), one(1, {0});
  const Sends a = zero.due(), b = one.due();
  const double now = std::max(zero.wakes_at(), one.wakes_at());
  const Sends to_one = zero.hear(now, b[0]), to_zero = one.hear(now, a[0]);
  REQUIRE(kinds(to_one) == "data");
  REQUIRE(kinds(to_zero) == "data");
  const Sends ack_to_one = zero.hear(now, to_zero[0]), ack_to_zero = one.hear(now, to_one[0]);
  CHECK(kinds(ack_to_one) == "ack");
  CHECK(kinds(ack_to_zero) == "ack");
  zero.hear(now, ack_to_zero[0]);
  one.hear(now, ack_to_one[0]);
  for (const Talker* end : {&zero, &one}) {
    CHECK(end->quiet());
    CHECK(end->counts().applied == 1u);
    CHECK(end->counts().protocol_errors == 0u);
  }
}

TEST_CASE("a peer that answers neither an offer nor its repeat is suspected, once") {
  Talker zero(0, {1});
  zero.due();
  REQUIRE(kinds(zero.ask_again()) == "offer");
  CHECK(zero.suspects().empty());
  for (int repeat = 0; repeat < 5; ++repeat)
    zero.ask_again();
  CHECK(zero.suspects() == std::vector<int>{1});
}

TEST_CASE("an offer that has not left is said again, and keeps its rank from nobody meanwhile") {
  Talker zero(0, {1, 2});
  const Sends first = zero.due();
  REQUIRE(kinds(first) == "offer");
  const double now = zero.wakes_at();
  const Sends second = zero.lose(now, first[0]);
  REQUIRE(kinds(second) == "offer");
  CHECK(second[0].header.to != first[0].header.to);
  CHECK(kinds(zero.lose(now, second[0])) == "");  // nobody else is there
  CHECK(kinds(zero.lose(now, first[0])) == "");   // and its repeat changes nothing

  Talker lonely(0, {1}), one(1, {0});
  lonely.lose(lonely.wakes_at(), lonely.due()[0]);
  const Sends again = lonely.ask_again();
  REQUIRE(kinds(again) == "offer");
  const double later = lonely.repeats_at();
  CHECK(kinds(lonely.hear(later, one.hear(later, again[0])[0])) == "data");
}

TEST_CASE("after answers that came a minute late a lost frame is still repeated within seconds") {
  Talker zero(0, {1}), one(1, {0}, 0.5, 2);
  for (int k = 0; k < 5; ++k) {
    const Sends offer = zero.due();
    REQUIRE(kinds(offer) == "offer");
    const double late = zero.wakes_at() + 60;
    zero.hear(late, one.hear(late, offer[0])[0]);  // declined: it is in another epoch
  }
  one.learn(0, 0.5, 1);
  const Sends offer = zero.due();
  const double now = zero.wakes_at();
  CHECK(zero.repeats_at() < now + 2.1);
  const Sends yes = one.hear(now, offer[0]);
  REQUIRE(kinds(zero.hear(now, yes[0])) == "data");  // which is lost
  CHECK(zero.repeats_at() < now + 2);
}

TEST_CASE("an offer of another epoch is declined, with the epoch as the reason") {
  Talker zero(0, {1}, 0.5, 1), one(1, {0}, 0.5, 2);
  const Sends offer = zero.due();
  const Sends no = one.hear(1, offer[0]);
  REQUIRE(kinds(no) == "decline");
  CHECK(no[0].header.reason == DeclineReason::epoch);
  CHECK(no[0].header.part == offer[0].header.part);
  CHECK(kinds(zero.hear(1, no[0])) == "");
  CHECK(zero.quiet());
  CHECK(one.counts().declined == 1u);
}

TEST_CASE("an offer of a rank that is no neighbour is declined, not ignored") {
  Talker zero(0, {1, 2}), stranger(7, {0});
  const Sends no = zero.hear(1, stranger.due()[0]);
  REQUIRE(kinds(no) == "decline");
  CHECK(no[0].header.reason == DeclineReason::epoch);
  CHECK(no[0].header.to == 7u);
}

TEST_CASE("both ends apply the smaller of the two alpha~, also when one has moved to a new epoch") {
  for (const double later : {0.7, 3.0}) {
    Talker zero(0, {1}, 1.5, 1), one(1, {0}, 2.5, 1);
    const Sends offer = zero.due();
    const Sends yes = one.hear(1, offer[0]);
    zero.learn(1, later, 2);  // between its offer and the answer
    const Sends data = zero.hear(1, yes[0]);
    one.learn(1, 9, 2);  // its exchange is under way and keeps what it has sent
    REQUIRE(kinds(data) == "data");
    zero.hear(1, yes[1]);
    one.hear(1, data[0]);
    REQUIRE(zero.jumps().size() == 1u);
    REQUIRE(one.jumps().size() == 1u);
    CHECK(zero.jumps()[0].alpha_tilde == std::min(later, 2.5));
    CHECK(one.jumps()[0].alpha_tilde == std::min(later, 2.5));
  }
}

TEST_CASE("a rank without a free snapshot declines the very offer that it could not serve") {
  Talker zero(0, {1, 2}), one(1, {0});
  one.lose_pool();
  // Zero's second offer to one, so that its attempt differs from any that one has made itself.
  Sends offer = zero.due();
  for (int due = 0; offer.empty() || offer[0].header.to != 1u; ++due) {
    REQUIRE(due < 100);
    offer = zero.due();
  }
  offer[0].header.part = 5;
  const Sends no = one.hear(1, offer[0]);
  REQUIRE(kinds(no) == "decline");
  CHECK(no[0].header.reason == DeclineReason::no_buffer);
  CHECK(no[0].header.part == 5u);
  CHECK(one.quiet());
}

TEST_CASE("data without a payload, or of another size or type, is an error that changes nothing") {
  Talker zero(0, {1}), one(1, {0});
  const Sends yes = one.hear(1, zero.due()[0]);
  zero.hear(1, yes[0]);
  Send wrong = yes[1];
  wrong.payload = {};
  CHECK(kinds(zero.hear(1, wrong)) == "");
  CHECK(zero.counts().protocol_errors == 1u);

  SnapshotPool longer(3, DType::f64, 1), other(2, DType::f32, 1);
  wrong.header.count = 3;
  wrong.payload = payload_of(wrong.header, longer.take());
  CHECK(kinds(zero.hear(1, wrong)) == "");  // not what our model has
  wrong.header = yes[1].header;
  wrong.header.dtype = DType::f32;
  wrong.payload = payload_of(wrong.header, other.take());
  CHECK(kinds(zero.hear(1, wrong)) == "");
  CHECK(zero.counts().protocol_errors == 3u);
  CHECK(zero.jumps().empty());
  CHECK(kinds(zero.hear(1, yes[1])) == "ack");  // the right one is still welcome
}

TEST_CASE("a number from the future is a counted error, and one from the past is acknowledged") {
  Talker zero(0, {1}), one(1, {0});
  const Sends offer = zero.due();
  talk(zero, one, 1, offer);
  REQUIRE(zero.counts().applied >= 1u);
  Send late = offer[0];
  CHECK(kinds(one.hear(20, late)) == "");
  late.header.kind = FrameKind::ask;
  CHECK(kinds(one.hear(20, late)) == "ack");
  late.header.number = 100;
  CHECK(kinds(one.hear(20, late)) == "");
  CHECK(one.counts().protocol_errors == 1u);
}

namespace {

/// Both ends live, and every frame arrives at once.
void live(Talker& zero, Talker& one, double& now, double until) {
  for (; now < until; now += 0.1) {
    talk(zero, one, now, zero.tick(now));
    talk(one, zero, now, one.tick(now));
  }
}

}  // namespace

TEST_CASE("ends whose numbers differ by five meet again, once one of them has begun anew") {
  for (const bool zero_forgets : {false, true}) {
    double now = 0;
    Talker zero(0, {1}), one(1, {0});
    while (zero.counts().applied < 5) {
      REQUIRE(now < 1000);
      live(zero, one, now, now + 0.1);
    }
    const int rank = zero_forgets ? 0 : 1;
    Talker forgetful(rank, {1 - rank});  // the same rank and incarnation, without its numbers
    Talker& other = zero_forgets ? one : zero;
    const uint64_t before = other.counts().applied;
    live(forgetful, other, now, now + 200);
    CHECK(other.counts().renewed + forgetful.counts().renewed == 1u);
    CHECK(other.counts().applied > before + 10);
    CHECK(forgetful.counts().applied == other.counts().applied - before);
  }
}

TEST_CASE("an end that has forgotten its later incarnations is told, and goes on in a new one") {
  double now = 0;
  Talker zero(0, {1}), one(1, {0});
  live(zero, one, now, 20);
  View reborn;  // what zero has heard of one
  reborn.edges.push_back({1, 3, 1, 0});
  zero.learn(now, reborn, 0.5, 1);
  const uint64_t before = zero.counts().applied;
  live(zero, one, now, now + 200);
  CHECK(one.counts().renewed == 1u);
  CHECK(zero.counts().applied > before + 10);
}

TEST_CASE("the news of a death do not touch the peer's next incarnation") {
  double now = 0;
  Talker zero(0, {1}), one(1, {0});
  live(zero, one, now, 5);
  zero.peer_down(now, 1, 0);
  View reborn;
  reborn.edges.push_back({1, 1, 1, 0});
  zero.learn(now, reborn, 0.5, 1);
  Talker next(1, {0}, 0.5, 1, 1);
  live(zero, next, now, now + 5);
  const uint64_t applied = next.counts().applied;
  REQUIRE(applied > 0u);
  zero.peer_down(now, 1, 0);  // once more, and late
  live(zero, next, now, now + 5);
  CHECK(next.counts().applied > applied);
  CHECK(zero.counts().broken_before + zero.counts().broken_after == 0u);
  CHECK(zero.counts().renewed + next.counts().renewed == 0u);
}

TEST_CASE("ends that were out of the graph and are back as they were use no number twice") {
  for (const bool both : {true, false}) {
    double now = 0;
    Talker zero(0, {1}), one(1, {0});
    live(zero, one, now, 5);
    const size_t before = zero.jumps().size();
    REQUIRE(before > 0u);
    zero.peer_down(now, 1, 0);
    if (both) one.peer_down(now, 0, 0);
    zero.learn(now, 0.5, 2);
    one.learn(now, 0.5, 2);
    live(zero, one, now, now + 60);
    CHECK(zero.jumps().size() > before + 3);
    for (const Talker* end : {&zero, &one}) {
      std::set<std::tuple<uint32_t, uint32_t, uint64_t>> used;
      for (const Apply& jump : end->jumps()) {
        const ExchangeKey& key = jump.exchange;
        CHECK(used.emplace(key.incarnation, key.peer_incarnation, key.number).second);
      }
    }
  }
}

TEST_CASE("each end gets the limits of both with the two snapshots that crossed") {
  const Limits of_zero{3, 40}, of_one{0.5, 70};
  Talker zero(0, {1}), one(1, {0});
  zero.expect(of_zero);
  one.expect(of_one);
  talk(zero, one, 1, zero.due());
  REQUIRE(zero.jumps().size() >= 1u);
  REQUIRE(one.jumps().size() >= 1u);
  CHECK(zero.jumps()[0].own == of_zero);
  CHECK(zero.jumps()[0].theirs == of_one);
  CHECK(one.jumps()[0].own == of_one);
  CHECK(one.jumps()[0].theirs == of_zero);
}

TEST_CASE("a peer that is far or sends what is not finite is offered to as often as before") {
  double now = 0;
  Talker zero(0, {1}), one(1, {0});
  live(zero, one, now, 20);
  const uint64_t calm = zero.counts().applied;
  for (int k = 0; k < 100; ++k) {
    zero.judge(1, Guard::Verdict::far);
    one.judge(0, Guard::Verdict::not_finite);
  }
  live(zero, one, now, 40);
  CHECK(zero.counts().applied + 2 >= 2 * calm);
  CHECK(zero.counts().clipped == 100u);
  CHECK(one.counts().not_finite == 100u);
  REQUIRE(zero.edge_counts().size() == 1u);
  CHECK(zero.edge_counts()[0].clipped == 100u);
}

TEST_CASE("random headers never crash a conversation, and only data with a snapshot move it") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed, 0, Purpose::test);
    Talker talker(0, {1, 2, 3}, 0.5, 2);
    SnapshotPool payloads(2, DType::f64, 64);
    double now = 0;
    for (int k = 0; k < 200; ++k) {
      now += 0.02 * random.uniform();
      Send frame;
      FrameHeader& h = frame.header;
      h.kind = static_cast<FrameKind>(random.below(kFrameKinds));
      h.reason = static_cast<DeclineReason>(random.below(kDeclineReasons));
      h.from = random.below(6);
      h.from_incarnation = random.below(20) == 0 ? random.below(3) : 0;
      h.to_incarnation = random.below(10) == 0;
      h.epoch = 1 + random.below(3);
      h.number = random.below(10) == 0 ? random.bits() : random.below(5);
      h.part = random.below(3);
      h.dtype = random.below(10) == 0 ? DType::f32 : DType::f64;
      if (h.kind == FrameKind::data && random.below(4) != 0) {
        h.count = random.below(10) == 0 ? random.below(5) : 2;
        frame.payload = payload_of(h, payloads.take());
      }
      const size_t before = talker.jumps().size();
      talker.hear(now, frame);
      if (talker.jumps().size() > before) {
        REQUIRE(h.kind == FrameKind::data);
        REQUIRE(static_cast<bool>(frame.payload));
      }
      if (talker.wakes_at() > now && random.below(8) == 0) now = talker.wakes_at(), talker.due();
    }
    CHECK(talker.counts().protocol_errors > 0u);
  }
}
