// The waits of a rank and the rate of its exchanges: the pairwise conversation without lost frames,
// then with a dead neighbour, then under frames that no peer has sent.
#include <cmath>

#include "kernels/memory/snapshot_pool.hpp"
#include "tests/at_hand.hpp"
#include "tests/catch.hpp"
#include "tests/conversations/harness.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

GossipSettings calm(const std::string& graph, int ranks, uint64_t seed, double transfer_s) {
  GossipSettings s;
  s.graph = graph;
  s.ranks = ranks;
  s.seed = seed;
  s.transfer_s = transfer_s;
  return s;
}

}  // namespace

TEST_CASE("without faults a rank has at most two exchanges open and not applied, one offer held") {
  uint64_t runs = 0, with_two = 0;
  for (const std::string graph : {"ring", "torus", "star", "complete", "cliques"}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const GossipSettings settings = calm(graph, 16, seed, seed % 2 == 0 ? 0.1 : 0.9);
      INFO(settings.name());
      Gossip gossip(settings);
      gossip.run(60);
      REQUIRE(gossip.complaint() == "");
      CHECK(gossip.most_open() <= 2);
      CHECK(gossip.counts().protocol_errors == 0u);
      CHECK(gossip.exchanges() > 50u);  // a hub of a star has time for 60 / 0.9
      ++runs;
      with_two += gossip.most_open() == 2;
    }
  }
  INFO(with_two << " of " << runs);
  CHECK(with_two > 0);  // the bound is reached, and by no means always
  CHECK(with_two < runs);
}

TEST_CASE("neighbours at hand do not have a rank take the far ones for slow") {
  for (const std::string graph : {"ring", "torus"}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      GossipSettings settings = calm(graph, 16, seed, 2);
      settings.faults = {at_hand(16, 4)};
      INFO(settings.name());
      Gossip gossip(settings);
      const double before = gossip.spread();
      gossip.run(100);
      REQUIRE(gossip.complaint() == "");
      CHECK(gossip.spread() < 1e-6 * before);  // who exchanges with many at once drifts apart
    }
  }
}

TEST_CASE("free pairing serves the requested rate while transfers fit, and shrinks the distance") {
  for (const double transfer_s : {0.0, 0.5, 0.9}) {
    const GossipSettings settings = calm("ring", 16, 3, transfer_s);
    INFO(settings.name());
    Gossip gossip(settings);
    const double before = gossip.spread();
    gossip.run(200);
    REQUIRE(gossip.complaint() == "");
    CHECK(static_cast<double>(gossip.exchanges()) / (200 * 16 / 2) > 0.97);
    CHECK(gossip.spread() < 1e-6 * before);
    CHECK(gossip.sum_error() < 1e-11);
  }
}

TEST_CASE("poisson pairing meets each edge as often as its clock rings") {
  GossipSettings settings = calm("star", 6, 4, 0);
  settings.pairing = Pairing::poisson;
  settings.latency_s = 1e-4;
  Gossip gossip(settings);
  const double seconds = 2000;
  gossip.run(seconds);
  REQUIRE(gossip.complaint() == "");
  const double rate = 0.5 * (1 + 1.0 / 5);  // of an edge between the hub and a leaf
  for (int leaf = 1; leaf < 6; ++leaf) {
    const double wanted = rate * seconds;
    const auto met = static_cast<double>(gossip.applied(leaf));
    CHECK(met == Approx(wanted).margin(5 * std::sqrt(wanted)));
  }
}

TEST_CASE("a dead neighbour holds a rank up once, for twice its least time-out at most") {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    GossipSettings settings = calm("ring", 8, seed, 0.5);
    INFO(settings.name());
    Gossip gossip(settings);
    gossip.kill(3);
    gossip.run(100);
    REQUIRE(gossip.complaint() == "");
    CHECK(gossip.longest_offer_s() <= 2 * 3 * 2.5 * settings.latency_s);
    CHECK(gossip.counts().longest_offer_s == Approx(gossip.longest_offer_s()));
    for (const int neighbour : {2, 4}) {
      CHECK(gossip.first_offers(neighbour, 3) <= 1u);
      CHECK(gossip.applied(neighbour) > 25u);  // the other neighbour alternates
    }
    CHECK(gossip.applied(0) > 80u);
  }
}

TEST_CASE("a rank whose very first partner dies in the middle of the exchange goes on") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    GossipSettings settings = calm("ring", 4, seed, 1.0);
    LinkFault lost;  // the snapshots of the one that dies
    lost.kind = LinkFaultKind::cut;
    lost.frames = FrameClass::bulk;
    lost.links = {{1, 0}, {1, 2}};
    settings.faults = {lost};
    INFO(settings.name());
    Gossip gossip(settings);
    gossip.run(0.9);  // the other snapshots are on their way, none has arrived
    REQUIRE(gossip.counts().opened > 0u);
    REQUIRE(gossip.counts().applied == 0u);
    gossip.kill(1);
    gossip.run(60);
    REQUIRE(gossip.complaint() == "");
    for (const int rank : {0, 2, 3})
      CHECK(gossip.applied(rank) > 10u);
  }
}

TEST_CASE("after it was told to begin nothing new a rank ends what is open and stays quiet") {
  Gossip gossip(calm("torus", 16, 5, 0.9));
  gossip.run(20);
  CHECK_FALSE(gossip.quiet());
  gossip.finish();
  CHECK(gossip.quiet());
  CHECK(gossip.half_applied() == 0u);
  const uint64_t opened = gossip.counts().opened;
  gossip.run(1000);
  CHECK(gossip.counts().opened == opened);
}

TEST_CASE("alpha~ = 1/2: two ranks without latency are equal after one exchange") {
  GossipSettings settings = calm("chain", 2, 6, 0);
  settings.latency_s = settings.jitter = 0;
  for (const char* method : {"ad_psgd", "a2cid2"}) {
    settings.method = method;
    INFO(method);
    Gossip gossip(settings);
    const Numbers a = gossip.x(0), b = gossip.x(1);
    for (int steps = 0; gossip.exchanges() == 0; ++steps) {
      REQUIRE(steps < 100000);
      gossip.step();
    }
    for (size_t k = 0; k < kGossipSize; ++k) {
      CHECK(gossip.x(0)[k] == Approx((a[k] + b[k]) / 2).margin(1e-14));
      CHECK(gossip.x(1)[k] == Approx(gossip.x(0)[k]).margin(1e-14));
    }
  }
}

TEST_CASE("frames that no honest neighbour sends now are answered or counted, and move nothing") {
  uint64_t errors = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    GossipSettings settings = calm("complete", 6, seed, 0.3);
    settings.gradients_per_s = seed % 2;
    INFO(settings.name());
    Gossip gossip(settings);
    Random random(seed, 4, Purpose::test);
    SnapshotPool payloads(kGossipSize, DType::f64, 64);
    for (int k = 0; k < 400; ++k) {
      gossip.run(80 + 0.05 * k);
      FrameHeader h;
      h.kind = static_cast<FrameKind>(random.below(kFrameKinds));
      h.to = random.below(6);
      h.from = (h.to + 1 + random.below(5)) % 6;
      h.epoch = random.below(4);
      h.dtype = DType::f64;
      h.part = random.below(4);
      h.alpha_tilde = random.uniform();
      switch (random.below(4)) {
        case 0: h.number = 1 + random.below(3); break;                     // long finished
        case 1: h.number = 100000 + random.below(1000); break;             // not yet
        case 2: h.to_incarnation = 1, h.number = random.below(50); break;  // not to this one
        case 3: h.from = 1000 + random.below(1000), h.number = random.below(50); break;
      }
      Lease payload;
      if (h.kind == FrameKind::data && random.below(2) == 0)
        payload = payloads.take(), h.count = kGossipSize;
      gossip.inject(h, payload);
    }
    gossip.finish();
    REQUIRE(gossip.complaint() == "");
    CHECK(gossip.half_applied() == 0u);
    CHECK(gossip.sum_error() < 1e-11);
    errors += gossip.counts().protocol_errors;
  }
  CHECK(errors > 100u);
}
