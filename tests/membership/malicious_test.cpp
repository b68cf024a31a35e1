// A member that lies (tests/messages/malicious_member.hpp) among honest ones: what it may cost
// them, and what not.
//
//   GRAPEVINE_SEEDS=10000 bin/membership_test "whatever a member*"   more seeds than the usual 200
//   GRAPEVINE_SEED=17     bin/membership_test "whatever a member*"   that one alone
#include <cstdlib>

#include "messages/control_codec.hpp"
#include "tests/catch.hpp"
#include "tests/membership/world.hpp"
#include "tests/messages/malicious_member.hpp"
#include "tests/seeds.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr double kLies_s = 10;
// A node that was invented is dead when a round of probes has come to it, and it did not answer.
constexpr double kOneView_s = 20, kOneViewOfInvented_s = 1.5;

WorldSettings nodes(int count, uint64_t seed) {
  WorldSettings s;
  s.nodes = count;
  s.seed = seed;
  return s;
}

std::unique_ptr<World> settled(int count, uint64_t seed) {
  auto world = std::make_unique<World>(nodes(count, seed));
  REQUIRE(world->run_until([&] { return world->one_view(); }, 20) < 20);
  return world;
}

// What `from` says to `to`, past the links: as if on the link that stands.
void say(World& world, int from, int to, const MembershipPacket& packet) {
  const auto bytes = encode_control(packet);
  REQUIRE(bytes);
  const auto decoded = decode_control(*bytes);
  REQUIRE(decoded);
  world.act(to, [&](Membership& m, MembershipEffects& out) {
    m.packet(world.now(), World::name(from), std::get<MembershipPacket>(*decoded), out);
  });
}

MembershipPacket news_of(const Member& m) {
  MembershipPacket packet;
  packet.kind = MembershipPacket::Kind::sync_reply;
  packet.news.push_back(m);
  return packet;
}

Member seen(const World& world, int node, int by) {
  const MemberTable& table = world.at(by).table();
  return table.at(*table.find(World::name(node)));
}

uint64_t sum(const std::map<std::string_view, uint64_t>& counts) {
  uint64_t all = 0;
  for (const auto& [why, count] : counts)
    all += count;
  return all;
}

std::string text_of(const Member& m) {
  std::string text = m.node + " " + std::to_string(m.incarnation) + "." +
                     std::to_string(m.refutations) + " state " +
                     std::to_string(static_cast<int>(m.state)) + " ranks " +
                     std::to_string(m.first_rank) + "+" + std::to_string(m.ranks) + " id " +
                     std::to_string(m.id) + (m.ready ? " ready" : "") + " gone";
  for (const RankGone& g : m.gone)
    text += " " + std::to_string(g.rank) + "." + std::to_string(g.incarnation);
  return text;
}

// Of which nodes the honest ones think differently.
std::string disputes(const World& world, int honest) {
  std::string text;
  for (const Member& m : world.at(0).members())
    for (int by = 1; by < honest; ++by) {
      const auto there = world.at(by).table().find(m.node);
      if (there && world.at(by).table().at(*there) == m) continue;
      text += "\n  n10000: " + text_of(m) + "\n  " + World::name(by) + ": " +
              (there ? text_of(world.at(by).table().at(*there)) : "nothing");
    }
  return text;
}

}  // namespace

TEST_CASE("whatever a member says, the others keep one view, and bounds on what they remember") {
  const auto [first, last, alone] = seeds_wanted(200);
  uint64_t refused = 0, said = 0;
  double worst_s = 0;
  uint32_t most = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    INFO("again: GRAPEVINE_SEED=" << seed << " bin/membership_test \"whatever a member*\"");
    const int honest = 3 + static_cast<int>(seed % 3), evil = honest;
    const auto world = settled(honest + 1, seed);
    std::vector<std::string> names;
    std::vector<uint32_t> incarnations;
    for (int node = 0; node < honest; ++node) {
      names.push_back(World::name(node));
      incarnations.push_back(world->at(node).self().incarnation);
    }
    MaliciousMember liar(seed, World::name(evil), names);
    const double begun_s = world->now();
    while (world->now() < begun_s + kLies_s && world->complaint().empty()) {
      world->run(world->now() + 0.2 * liar.random().exponential());
      const int to = static_cast<int>(liar.random().below(static_cast<uint32_t>(honest)));
      MembershipPacket truth;
      truth.news = world->at(to).members();
      truth.sequence = world->at(to).table().digest();
      truth.graph = world->at(to).spec();
      truth.facts = world->at(to).facts();
      liar.hear(truth);
      for (uint32_t k = liar.random().below(8); k > 0; --k) {
        const ControlMessage m = liar.message();
        const auto* packet = std::get_if<MembershipPacket>(&m);
        if (packet == nullptr) continue;
        ++said;
        say(*world, evil, to, *packet);
      }
    }
    REQUIRE(world->complaint() == "");
    world->kill(evil);
    const double limit_s =
        kOneView_s + kOneViewOfInvented_s * static_cast<double>(world->at(0).table().size());
    const double took_s = world->run_until([&] { return world->one_view(); }, limit_s);
    REQUIRE(world->complaint() == "");
    INFO(disputes(*world, honest));
    REQUIRE(world->view_difference() == "");
    worst_s = std::max(worst_s, took_s);
    for (int node = 0; node < honest; ++node) {
      const Membership& m = world->at(node);
      REQUIRE(m.table().size() <= kMembersAtMost);
      REQUIRE(m.table().rates().size() <= kEdgeRatesAtMost);
      const uint32_t grown = m.self().incarnation - incarnations[static_cast<size_t>(node)];
      most = std::max(most, grown);
      refused += sum(m.refusals());
    }
  }
  WARN(said << " packets of lies, " << refused << " of their records and facts refused; one view "
            << worst_s << " s after the last at worst; a node began " << most
            << " incarnations at most, or rose above as many that were invented");
  CHECK(refused > 0u);
}

TEST_CASE("that a node is dead is a suspicion while one alone says so, and costs one incarnation") {
  const auto world = settled(5, 1);
  const uint32_t incarnation = world->at(2).self().incarnation;
  Member dead = seen(*world, 2, 0);
  dead.state = MemberState::dead;
  say(*world, 4, 0, news_of(dead));
  CHECK(world->state_of(2, 0) == MemberState::suspect);
  CHECK(world->run_until([&] { return world->one_view(); }, 5) < 1);
  CHECK(world->at(2).self().incarnation == incarnation + 1);
  CHECK(world->false_deaths() == 0);
}

TEST_CASE("what two say of a death is believed, and so is what one's own probe finds") {
  for (const bool two : {true, false}) {
    const auto world = settled(5, 2);
    Member dead = seen(*world, 2, 0);
    dead.state = MemberState::dead;
    world->stop(2);
    say(*world, 4, 0, news_of(dead));
    CHECK(world->state_of(2, 0) == MemberState::suspect);
    say(*world, 4, 0, news_of(dead));  // it is one all the same
    CHECK(world->state_of(2, 0) == MemberState::suspect);
    if (two) {
      say(*world, 3, 0, news_of(dead));
      CHECK(world->state_of(2, 0) == MemberState::dead);
    } else {
      const auto is_dead = [&] { return world->state_of(2, 0) == MemberState::dead; };
      CHECK(world->run_until(is_dead, 5) < 3);  // a suspicion alone would take 5 s
    }
  }
}

TEST_CASE("who is said to be dead hears of it from a node that had no link with it, too") {
  const auto world = settled(64, 8);
  world->run(world->now() + 20);  // what was needed to meet is closed
  int far = 1;
  while (world->at(0).linked(World::name(far)))
    ++far;
  const uint32_t incarnation = world->at(far).self().incarnation;
  Member dead = seen(*world, far, 0);
  dead.state = MemberState::dead;
  say(*world, 63, 0, news_of(dead));
  world->run(world->now() + 2);
  CHECK(world->at(far).self().incarnation == incarnation + 1);
  CHECK(world->view_difference() == "");
}

TEST_CASE("of all whose deaths one member invents, few are looked for at once") {
  const auto world = settled(64, 7);
  for (int node = 2; node < 62; ++node) {
    Member dead = seen(*world, node, 0);
    dead.state = MemberState::dead;
    say(*world, 63, 0, news_of(dead));
  }
  CHECK(world->at(0).open_probes() > 0u);
  CHECK(world->at(0).open_probes() <= 16u);
  CHECK(world->run_until([&] { return world->one_view(); }, 30) < 15);
  CHECK(world->false_deaths() == 0);
}

TEST_CASE("a liar costs a node one incarnation a second at most") {
  const auto world = settled(5, 3);
  const uint32_t incarnation = world->at(2).self().incarnation;
  for (int k = 0; k < 1000; ++k) {
    Member dead = world->at(2).self();
    dead.state = MemberState::dead;
    say(*world, 4, 2, news_of(dead));
    dead.state = MemberState::alive;
    ++dead.incarnation;
    say(*world, 4, 2, news_of(dead));
    say(*world, 4, 0, news_of(dead));
    world->run(world->now() + 0.01);
  }
  const uint32_t begun = world->at(2).self().incarnation - incarnation;
  CHECK(begun >= 5u);   // each new one is at least one above what was said
  CHECK(begun <= 22u);  // in ten seconds
  CHECK(world->run_until([&] { return world->one_view(); }, 20) < 10);
}

TEST_CASE(
    "a node whose ranks are taken again and again moves once a second, after three in a row") {
  const auto world = settled(5, 9);
  const uint32_t incarnation = world->at(2).self().incarnation;
  for (int k = 0; k < 50; ++k) {
    Member thief = world->at(2).self();
    thief.node = "a" + std::to_string(k);
    thief.address = thief.node;
    thief.id = 1000 + static_cast<uint64_t>(k);
    thief.incarnation = 1;
    say(*world, 4, 2, news_of(thief));
    world->run(world->now() + 0.1);
  }
  const uint32_t begun = world->at(2).self().incarnation - incarnation;
  CHECK(begun >= 5u);  // in five seconds
  CHECK(begun <= 8u);
}

TEST_CASE("a liar changes the graph once a second after four in a row, and cannot use it up") {
  const auto world = settled(5, 5);
  const auto graph_of = [&](uint64_t version, const std::string& topology) {
    MembershipPacket packet;
    packet.kind = MembershipPacket::Kind::sync_reply;
    packet.graph = {version, World::name(4), topology};
    return packet;
  };
  std::string line;
  world->act(0, [&](Membership& m, MembershipEffects& out) {
    m.packet(world->now(), World::name(4), graph_of(m.spec().version + 1, "star"), out);
    for (const std::string& each : out.lines)
      line += each;
  });
  CHECK(line == "the graph is to be star, says " + World::name(4));
  int changes = 0;
  for (int k = 0; k < 1000; ++k) {
    const GraphSpec before = world->at(1).spec();
    say(*world, 4, k % 4,
        graph_of(world->at(k % 4).spec().version + 1, "graph-" + std::to_string(k)));
    world->run(world->now() + 0.01);
    changes += !(world->at(1).spec() == before);
  }
  CHECK(changes >= 8);
  CHECK(changes <= 14);  // in ten seconds
  const uint64_t version = world->at(0).spec().version;
  for (const uint64_t jump : {uint64_t{1} << 17, uint64_t{1} << 29, uint64_t{1} << 40})
    say(*world, 4, 0, graph_of(version + jump, "far"));
  CHECK(world->at(0).refusals().at("a graph that jumps") == 2);
  CHECK(world->at(0).spec().topology != "far");
  world->act(
      2, [&](Membership& m, MembershipEffects& out) { m.reconfigure(world->now(), "torus", out); });
  CHECK(world->run_until([&] { return world->one_view(); }, 20) < 15);
  CHECK(world->at(0).spec().topology == "torus");
}

TEST_CASE("nodes that a liar has led ahead through many graphs are followed by all others") {
  const auto world = settled(5, 6);
  world->partition({2, 3});
  const uint64_t before = world->at(2).spec().version;
  for (int k = 0; k < 10; ++k) {
    for (uint64_t jump = 1; jump < 1 << 20; jump *= 2) {
      MembershipPacket packet;
      packet.kind = MembershipPacket::Kind::sync_reply;
      packet.graph = {world->at(0).spec().version + jump, World::name(4), "star"};
      say(*world, 4, 0, packet);
    }
    world->run(world->now() + 1);
  }
  CHECK(world->at(0).spec().version > before + 5000);
  CHECK(world->at(2).spec().version == before);
  world->heal();
  CHECK(world->run_until([&] { return world->one_view(); }, 60) < 30);
  CHECK(world->at(2).spec().version > before + 5000);
}

TEST_CASE("an incarnation that jumps is refused and counted, of oneself and of others") {
  const auto world = settled(4, 4);
  for (const uint32_t jump : {1u << 16, kIncarnationsAtMost - 1, kIncarnationsAtMost}) {
    Member far = seen(*world, 1, 0);
    far.incarnation = jump;
    say(*world, 3, 0, news_of(far));
    CHECK(seen(*world, 1, 0).incarnation < 5u);
    say(*world, 3, 1, news_of(far));
    CHECK(world->at(1).self().incarnation < 5u);
    far.node = "stranger";
    far.incarnation = jump + 1;
    say(*world, 3, 0, news_of(far));
    CHECK_FALSE(world->at(0).table().find("stranger"));
  }
  CHECK(sum(world->at(0).refusals()) == 6u);
  CHECK(world->at(0).refusals().at("an incarnation that jumps") >= 5u);
  CHECK(sum(world->at(1).refusals()) == 3u);
}

TEST_CASE("ranks out of bounds are refused, and of those that overlap every roster has one owner") {
  const auto world = settled(4, 5);
  Member m = seen(*world, 3, 0);
  ++m.refutations;
  m.ranks = kRanksOfNodeAtMost + 1;
  say(*world, 3, 0, news_of(m));
  m.ranks = 2;
  m.first_rank = kRankNumbersAtMost - 1;
  say(*world, 3, 0, news_of(m));
  CHECK(world->at(0).refusals().at("ranks that cannot be") == 2u);
  m.first_rank = world->at(1).self().first_rank;  // it wants those of another
  m.ranks = 4;
  for (int to = 0; to < 3; ++to) {
    say(*world, 3, to, news_of(m));
    const auto places = world->at(to).table().places();
    for (size_t k = 1; k < places.size(); ++k)
      REQUIRE(places[k - 1].rank < places[k].rank);
    const auto owner = std::find_if(places.begin(), places.end(), [&](const auto& place) {
      return place.rank == world->at(1).self().first_rank;
    });
    REQUIRE(owner != places.end());
    CHECK(world->at(to).table().at(owner->member).node == World::name(1));
  }
}

TEST_CASE("a rank that its node gave up is in no roster, and is back in its own incarnation") {
  const auto world = settled(3, 6);
  const uint32_t rank = world->at(1).self().first_rank;
  const auto incarnation = [&](int by) -> std::optional<uint32_t> {
    for (const auto& place : world->at(by).table().places())
      if (place.rank == rank) return place.incarnation;
    return std::nullopt;
  };
  const uint32_t before = *incarnation(0);
  world->act(1, [&](Membership& m, MembershipEffects& out) {
    CHECK(m.rank_gone(world->now(), rank, out));
  });
  REQUIRE(world->run_until([&] { return world->one_view(); }, 5) < 1);
  for (int by = 0; by < 3; ++by)
    CHECK_FALSE(incarnation(by).has_value());
  CHECK(world->at(0).table().places().size() == 3 * kRanks - 1);
  world->act(1, [&](Membership& m, MembershipEffects& out) {
    CHECK(m.rank_returned(world->now(), rank, out));
  });
  REQUIRE(world->run_until([&] { return world->one_view(); }, 5) < 1);
  for (int by = 0; by < 3; ++by)
    CHECK(incarnation(by) == before + 1);
}

TEST_CASE("a process whose name lives on in another one contests it once a second at most") {
  const auto world = settled(4, 7);
  const uint32_t incarnation = world->at(1).self().incarnation;
  Member other = world->at(1).self();
  other.id += 1;
  for (int k = 0; k < 300; ++k) {
    other.incarnation = world->at(1).self().incarnation + 1;
    say(*world, 0, 1, news_of(other));
    world->run(world->now() + 0.01);
  }
  CHECK(world->at(1).self().incarnation >= incarnation + 2);
  CHECK(world->at(1).self().incarnation <= incarnation + 10);
}

TEST_CASE("a process that stood still and hears that another has its name by now is to end") {
  struct Case {
    double stood_still_s;
    bool other, over, ends;
  };
  for (const Case c : {Case{3, true, false, true}, Case{0.5, true, false, false},
                       Case{3, false, false, false}, Case{3, true, true, false}}) {
    INFO(c.stood_still_s << " s, another process " << c.other << ", which is over " << c.over);
    const auto world = settled(4, 8);
    Member told = world->at(1).self();
    const uint32_t incarnation = told.incarnation;
    told.id += c.other;
    ++told.incarnation;
    if (c.over) told.state = MemberState::dead;
    world->stop(1);
    world->run(world->now() + c.stood_still_s);
    bool ends = false;
    world->act(1, [&](Membership& m, MembershipEffects& out) {
      m.packet(world->now(), World::name(0), news_of(told), out);
      ends = std::exchange(out.name_taken, false);
    });
    CHECK(ends == c.ends);
    CHECK(world->at(1).self().incarnation == incarnation + (c.ends ? 0 : 2));
  }
}

TEST_CASE("a process that stood still refutes those of its name that it had heard of before") {
  const auto world = settled(4, 9);
  Member told = world->at(1).self();
  told.id += 1;
  ++told.incarnation;
  say(*world, 0, 1, news_of(told));
  world->run(world->now() + 5);
  world->stop(1);
  world->run(world->now() + 3);
  world->go_on(1);
  told.incarnation = world->at(1).self().incarnation + 1;
  say(*world, 0, 1, news_of(told));
  CHECK(world->at(1).self().incarnation > told.incarnation);
  CHECK(world->complaint() == "");
}
