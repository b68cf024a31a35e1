// The promises of the pairwise conversation, on many seeded runs: losses, repeats, overtaking,
// cuts, deaths, new graphs. The promises themselves are in watch.cpp.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/conversations/harness.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const char* const kGraphs[] = {"ring",    "star",        "complete",        "torus",
                               "cliques", "binary-tree", "random-regular:3"};
constexpr int kSeeds = 50;
constexpr double kFaultsEnd = 40;  // s

/// Faults of every kind, drawn from the seed; they end, so that the run can come to rest.
GossipSettings faulty(const std::string& graph, uint64_t seed) {
  Random random(seed, 1, Purpose::test);
  GossipSettings s;
  s.graph = graph;
  s.ranks = 8 + 4 * static_cast<int>(random.below(3));
  s.seed = seed;
  s.pairing = seed % 3 == 0 ? Pairing::poisson : Pairing::free;
  s.method = seed % 5 == 0 ? "ad_psgd" : "a2cid2";
  s.latency_s = random.uniform(0.005, 0.15);
  s.jitter = 0.9;
  s.transfer_s = random.uniform(0, 1.5);
  s.state_s = seed % 2 == 0 ? random.uniform(0, 0.3) : 0;
  s.empty_pool = seed % 4 == 0 ? 0.1 : 0;
  s.gradients_per_s = seed % 2 == 0 ? 1 : 0;
  s.echo = seed % 3 == 1 ? 0.1 : 0;
  const auto fault = [&](LinkFaultKind kind, FrameClass frames, double probability) {
    LinkFault f;
    f.kind = kind;
    f.frames = frames;
    f.probability = probability;
    f.until = kFaultsEnd;
    s.faults.push_back(f);
  };
  fault(LinkFaultKind::loss, FrameClass::control, random.uniform(0, 0.3));
  fault(LinkFaultKind::loss, FrameClass::bulk, random.uniform(0, 0.2));
  fault(LinkFaultKind::repeat, FrameClass::all, random.uniform(0, 0.2));
  for (const LinkFaultKind kind :
       {LinkFaultKind::cut, LinkFaultKind::one_way, LinkFaultKind::delay}) {
    fault(kind, FrameClass::all, 1);
    LinkFault& f = s.faults.back();
    const int i = static_cast<int>(random.below(static_cast<uint32_t>(s.ranks)));
    f.links = {{i, (i + 1) % s.ranks}, {i, 0}};
    f.at = random.uniform(5, 20);
    f.until = f.at + random.uniform(1, 15);
    if (kind == LinkFaultKind::delay) f.factor = 5;
  }
  return s;
}

void check_promises(Gossip& gossip) {
  REQUIRE(gossip.complaint() == "");
  CHECK(gossip.counts().protocol_errors == 0u);
  CHECK(gossip.sum_error() < 1e-11);
}

}  // namespace

TEST_CASE("whatever links lose, repeat and reorder, both ends apply every exchange exactly once") {
  uint64_t exchanges = 0, repeated = 0;
  for (const std::string graph : kGraphs) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const GossipSettings settings = faulty(graph, seed);
      INFO(settings.name());
      Gossip gossip(settings);
      for (const double pause : {10.0, 25.0, kFaultsEnd}) {
        gossip.run(pause);
        check_promises(gossip);
      }
      gossip.finish();
      check_promises(gossip);
      CHECK(gossip.quiet());
      CHECK(gossip.half_applied() == 0u);
      CHECK(gossip.counts().applied == 2 * gossip.exchanges());
      exchanges += gossip.exchanges();
      repeated += gossip.counts().repeated;
    }
  }
  CHECK(exchanges > 10000u);
  CHECK(repeated > 1000u);
}

TEST_CASE("new graphs in the middle of exchanges neither lose nor double one") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    GossipSettings settings = faulty(kGraphs[seed % 7], seed);
    settings.ranks = 16;
    INFO(settings.name());
    Gossip gossip(settings);
    Random random(seed, 2, Purpose::test);
    for (double at = 0; at < kFaultsEnd;) {
      at += random.uniform(0.1, 8);
      gossip.run(at);
      gossip.reconfigure(kGraphs[random.below(7)]);
    }
    check_promises(gossip);
    gossip.finish();
    check_promises(gossip);
    CHECK(gossip.half_applied() == 0u);
  }
}

TEST_CASE("an exchange that a death leaves half applied is counted as broken by the survivor") {
  uint64_t broken = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    GossipSettings settings = faulty(kGraphs[seed % 7], seed);
    settings.empty_pool = 0;
    INFO(settings.name());
    Gossip gossip(settings);
    Random random(seed, 3, Purpose::test);
    for (double at = 0; at < kFaultsEnd;) {
      const int rank = static_cast<int>(random.below(static_cast<uint32_t>(settings.ranks)));
      gossip.run(at += random.uniform(0.5, 6));
      gossip.kill(rank);
      gossip.run(at += random.uniform(0, 6));
      if (seed % 2 == 0) gossip.tell_down(rank);
      gossip.run(at += random.uniform(0, 3));
      check_promises(gossip);
      gossip.restart(rank);
    }
    gossip.finish();
    check_promises(gossip);
    CHECK(gossip.quiet());
    CHECK(gossip.half_applied_here() <= gossip.counts().broken_after);
    broken += gossip.half_applied_here();
  }
  CHECK(broken > 0u);
}
