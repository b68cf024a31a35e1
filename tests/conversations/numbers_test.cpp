// The numbers that a frame may have: a peer that claims to be ahead finishes nothing.
#include "tests/catch.hpp"
#include "tests/conversations/talker.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("a frame of the next number finishes no exchange that was not applied here") {
  for (const FrameKind forged : {FrameKind::offer, FrameKind::accept, FrameKind::data,
                                 FrameKind::ack, FrameKind::ask, FrameKind::decline}) {
    INFO("kind " << static_cast<int>(forged));
    Talker zero(0, {1}), one(1, {0});
    const Sends offer = zero.due();
    const double now = zero.wakes_at() + 0.01;
    const Sends yes = one.hear(now, offer[0]);
    const Sends data = zero.hear(now, yes[0]);  // both are in number 1, neither has applied it
    REQUIRE(yes.size() == 2u);
    REQUIRE(data.size() == 1u);
    Send ahead = yes[0];
    ahead.header.kind = forged;
    ahead.header.number = 2;
    zero.hear(now, ahead);
    // A no may be to an offer of an earlier life; nothing else has such a number without a lie.
    CHECK(zero.counts().protocol_errors == (forged == FrameKind::decline ? 0u : 1u));
    CHECK(zero.jumps().empty());
    CHECK_FALSE(zero.quiet());
    zero.hear(now, yes[1]);  // the true data of number 1 are still welcome
    REQUIRE(zero.jumps().size() == 1u);
    CHECK(zero.jumps()[0].exchange.number == 1u);
    CHECK(zero.counts().applied == 1u);
  }
}
