// A member that lies (tests/messages/malicious_member.hpp) among honest ones: what it may cost
// them, and what not.
//
//   GRAPEVINE_SEEDS=10000 bin/membership_test "whatever a member*"   more seeds than the usual 200
//   GRAPEVINE_SEED=17     bin/membership_test "whatever a member*"   that one alone
#include <cstdlib>
#include <set>

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

std::unique_ptr<World> converged(int count, uint64_t seed) {
  auto world = std::make_unique<World>(nodes(count, seed));
  REQUIRE(world->run_until([&] { return world->one_view(); }, 20) < 20);
  return world;
}

// Sends a packet of `from` to `to` without the network, as if on their link.
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

// As the node itself says it.
MembershipPacket word_of(const World& world, int node, const Member& m) {
  return news_of(signed_by(world.key(node), m));
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
                     std::to_string(id_of(m.key)) + (m.ready ? " ready" : "") + " gone";
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
    const auto world = converged(honest + 1, seed);
    std::vector<std::string> names;
    std::vector<uint32_t> incarnations;
    for (int node = 0; node < honest; ++node) {
      names.push_back(World::name(node));
      incarnations.push_back(world->at(node).self().incarnation);
    }
    MaliciousMember liar(seed, World::name(evil), names, [&](const std::string& name) {
      return signing_of(name == World::name(evil) ? world->key(evil) : key_of(name));
    });
    const double begun_s = world->now();
    while (world->now() < begun_s + kLies_s && world->complaint().empty()) {
      world->run(world->now() + 0.2 * liar.random().exponential());
      const int to = static_cast<int>(liar.random().below(static_cast<uint32_t>(honest)));
      MembershipPacket truth;
      truth.news = world->at(to).members();
      truth.sequence = world->at(to).table().digest();
      truth.graph = world->at(to).spec();
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
      REQUIRE(m.table().rates().size() <= kRateFactsAtMost);
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

TEST_CASE("that a node is dead is a suspicion while one alone says so, which is refuted") {
  const auto world = converged(5, 1);
  const uint32_t incarnation = world->at(2).self().incarnation;
  Member dead = seen(*world, 2, 0);
  dead.state = MemberState::dead;
  say(*world, 4, 0, news_of(dead));
  CHECK(world->state_of(2, 0) == MemberState::suspect);
  CHECK(world->run_until([&] { return world->one_view(); }, 5) < 1);
  CHECK(world->at(2).self().incarnation == incarnation);
  CHECK(world->at(2).self().refutations > dead.refutations);
  CHECK(world->false_deaths() == 0);
}

TEST_CASE("what two say of a death is believed, and so is what one's own probe finds") {
  for (const bool two : {true, false}) {
    const auto world = converged(5, 2);
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
  const auto world = converged(64, 8);
  world->run(world->now() + 20);  // what was needed to meet is closed
  int far = 1;
  while (world->at(0).linked(World::name(far)))
    ++far;
  const uint32_t incarnation = world->at(far).self().incarnation;
  Member dead = seen(*world, far, 0);
  dead.state = MemberState::dead;
  say(*world, 63, 0, news_of(dead));
  world->run(world->now() + 2);
  CHECK(world->at(far).self().incarnation == incarnation);
  CHECK(world->at(far).self().refutations > dead.refutations);
  CHECK(world->view_difference() == "");
}

TEST_CASE("of all whose deaths one member invents, few are looked for at once") {
  const auto world = converged(64, 7);
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

TEST_CASE("one liar costs a node five incarnations in ten seconds at most, two one a second") {
  for (const int liars : {1, 2}) {
    const auto world = converged(5, 3);
    const uint32_t incarnation = world->at(2).self().incarnation;
    for (int k = 0; k < 1000; ++k) {
      Member dead = world->at(2).self();
      dead.state = MemberState::dead;
      say(*world, 3 + k % liars, 2, news_of(dead));
      world->run(world->now() + 0.01);
    }
    const uint32_t begun = world->at(2).self().incarnation - incarnation;
    CHECK(begun >= 3u);
    CHECK(begun <= (liars == 1 ? 5u : 11u));
    CHECK(world->run_until([&] { return world->one_view(); }, 20) < 10);
  }
}

TEST_CASE("what one says in the name of another is believed by nobody, and costs him nothing") {
  using Lie = std::function<void(Member&)>;
  const std::pair<const char*, Lie> lies[] = {
      {"another address", [](Member& m) { m.address = "h:1"; }},
      {"other ranks", [](Member& m) { m.first_rank += 100; }},
      {"its work is done", [](Member& m) { m.finished = true; }},
      {"its ranks have gone",
       [](Member& m) {
         m.gone = {{m.first_rank, m.incarnation, false}};
       }},
      {"its next life",
       [](Member& m) {
         m.incarnation += 1;
         m.refutations = 0;
       }},
      {"it has left", [](Member& m) { m.state = m.last_word = MemberState::left; }},
      {"it wants the run to stop", [](Member& m) { m.stops = true; }},
      {"it wants means", [](Member& m) { m.means_asked += 1000; }},
      {"it has another key", [](Member& m) { m.key[31] ^= 1; }},
  };
  for (const auto& [what, lie] : lies) {
    INFO(what);
    const auto world = converged(4, 11);
    const Member before = world->at(1).self();
    for (int k = 0; k < 50; ++k) {
      for (const int to : {0, 1, 2}) {
        Member forged = world->at(1).self();
        forged.refutations += 1000;
        lie(forged);
        say(*world, 3, to, news_of(forged));                            // nobody has signed it
        say(*world, 3, to, news_of(signed_by(world->key(3), forged)));  // or another
        forged.key = world->key(1).public_key();
        say(*world, 3, to, news_of(forged));
      }
      world->run(world->now() + 0.1);
    }
    for (const int by : {0, 2}) {
      CHECK(seen(*world, 1, by).incarnation == before.incarnation);
      CHECK(seen(*world, 1, by).address == before.address);
      CHECK(seen(*world, 1, by).first_rank == before.first_rank);
      CHECK(seen(*world, 1, by).key == before.key);
      CHECK(world->at(by).refusals().at("facts that nobody has signed") > 0u);
      CHECK_FALSE(world->at(by).stopping());
      CHECK(world->at(by).means_asked() == 0u);
    }
    CHECK(world->at(1).self().incarnation == before.incarnation);
    CHECK(world->false_deaths() == 0);
    CHECK(world->run_until([&] { return world->one_view(); }, 20) < 10);
  }
}

TEST_CASE("who passes on what nobody has signed is named in one alarm, and the rest is not read") {
  const auto world = converged(3, 12);
  Member forged = world->at(1).self();
  ++forged.refutations;
  MembershipPacket packet = news_of(forged);
  Member own = world->at(2).self();
  ++own.refutations;
  own.address = "h:2";
  packet.news.push_back(signed_by(world->key(2), own));
  std::vector<std::pair<std::string, std::string>> alarms;
  for (int k = 0; k < 3; ++k)
    world->act(0, [&](Membership& m, MembershipEffects& out) {
      m.packet(world->now(), World::name(2), packet, out);
      alarms.insert(alarms.end(), out.alarms.begin(), out.alarms.end());
    });
  REQUIRE(alarms.size() == 1);
  CHECK(alarms[0].first == World::name(2));
  CHECK(seen(*world, 2, 0).address != "h:2");
}

TEST_CASE("of two words under one number the larger stands everywhere, and their owner is named") {
  const auto world = converged(4, 13);
  Member one = world->at(3).self(), other = one;
  one.refutations = other.refutations += 10;
  one.address = "h:1";
  other.address = "h:2";
  world->kill(3);
  std::set<std::string> named;
  const auto tell = [&](int to, const Member& m) {
    world->act(to, [&](Membership& each, MembershipEffects& out) {
      each.packet(world->now(), World::name(3), word_of(*world, 3, m), out);
      for (const auto& [node, how] : out.alarms)
        named.insert(node);
    });
  };
  tell(0, one);
  tell(1, other);
  tell(2, one);
  tell(2, other);
  tell(2, one);
  CHECK(named == std::set{World::name(3)});
  world->run(world->now() + 1);
  std::set<std::string> addresses;
  for (int by = 0; by < 3; ++by)
    addresses.insert(seen(*world, 3, by).address);
  CHECK(addresses.size() == 1);
}

TEST_CASE("a name is its process's until that one is over; then another may have it") {
  const auto world = converged(4, 14);
  Member other = world->at(1).self();
  other.incarnation += 1;
  other.refutations = 0;
  const NodeKey key = key_of("another");
  for (int k = 0; k < 20; ++k) {
    say(*world, 3, 0, news_of(signed_by(key, other)));
    world->run(world->now() + 0.5);
  }
  CHECK(seen(*world, 1, 0).key == world->at(1).self().key);
  CHECK(world->at(1).self().incarnation == other.incarnation - 1);
  CHECK(world->false_deaths() == 0);
  world->restart(1, false);  // it has no folder
  CHECK(world->run_until([&] { return world->one_view(); }, 20) < 10);
  CHECK(seen(*world, 1, 0).key == world->at(1).self().key);
  CHECK(world->at(1).self().key != other.key);
}

TEST_CASE("who asks for means again and again is not counted any more; who asks now and then is") {
  const auto world = converged(4, 15);
  Member liar = world->at(3).self();
  std::set<uint64_t> numbers;
  std::set<std::string> named;
  for (int k = 0; k < 300; ++k) {
    ++liar.refutations;
    liar.means_asked += k == 0 ? 1u << 30 : 1;
    world->act(0, [&](Membership& m, MembershipEffects& out) {
      m.packet(world->now(), World::name(3), word_of(*world, 3, liar), out);
      for (const auto& [node, how] : out.alarms)
        named.insert(node);
    });
    world->run(world->now() + 0.1);
    numbers.insert(world->at(1).means_asked());
  }
  CHECK(numbers.size() < 30u);
  CHECK(named == std::set{World::name(3)});
  const uint64_t before = world->at(1).means_asked();
  for (int k = 0; k < 3; ++k) {
    world->act(2, [&](Membership& m, MembershipEffects& out) { m.want_mean(world->now(), out); });
    world->run(world->now() + 1);
  }
  const uint64_t after = world->at(1).means_asked();
  CHECK(after != before);
  for (const int by : {0, 2})
    CHECK(world->at(by).means_asked() == after);
}

TEST_CASE("of an edge counts what both ends say, at most twice the other's, and its own at each") {
  const auto world = converged(4, 16);
  const auto first = [&](int node) { return world->at(node).self().first_rank; };
  const auto says = [&](int node, double per_second) {
    const uint32_t i = std::min(first(1), first(3)), j = std::max(first(1), first(3));
    const EdgeRate rate{i, j, per_second};
    const uint32_t a = std::min(first(0), first(2)), b = std::max(first(0), first(2));
    const std::vector<EdgeRate> all{rate, {a, b, 1e9}};  // one of others, too
    world->act(node,
               [&](Membership& m, MembershipEffects& out) { m.rates(world->now(), all, out); });
    world->run(world->now() + 5);
  };
  const auto counts = [&](int by) {
    std::vector<double> rates;
    for (const EdgeRate& rate : world->at(by).edge_rates())
      rates.push_back(rate.per_second);
    return rates;
  };
  says(3, 1e9);
  CHECK(counts(0).empty());  // one end alone
  CHECK(counts(3) == std::vector<double>{1e9});
  says(1, 5);
  CHECK(counts(1) == std::vector<double>{5});
  CHECK(counts(0) == std::vector<double>{10});
  says(3, 4);
  for (const int node : {0, 1, 2, 3})
    CHECK(counts(node) == std::vector<double>{5});
  says(3, 2);
  for (const int node : {0, 1, 2})
    CHECK(counts(node) == std::vector<double>{4});
  CHECK(counts(3) == std::vector<double>{2});  // far from what the other end says
}

TEST_CASE(
    "a node whose ranks are taken again and again moves once a second, after three in a row") {
  const auto world = converged(5, 9);
  const uint32_t incarnation = world->at(2).self().incarnation;
  for (int k = 0; k < 50; ++k) {
    Member thief = world->at(2).self();
    thief.node = "a" + std::to_string(k);
    thief.address = thief.node;
    thief.incarnation = 1;
    say(*world, 4, 2, news_of(signed_by_itself(thief)));
    world->run(world->now() + 0.1);
  }
  const uint32_t begun = world->at(2).self().incarnation - incarnation;
  CHECK(begun >= 5u);  // in five seconds
  CHECK(begun <= 8u);
}

TEST_CASE("a liar changes the graph once a second after four in a row, and cannot use it up") {
  const auto world = converged(5, 5);
  const auto graph_of = [&](uint64_t version, const std::string& topology) {
    MembershipPacket packet;
    packet.kind = MembershipPacket::Kind::sync_reply;
    packet.graph = signed_by(world->key(4), {version, World::name(4), topology, {}, {}});
    return packet;
  };
  std::string line;
  world->act(0, [&](Membership& m, MembershipEffects& out) {
    m.packet(world->now(), World::name(4), graph_of(m.spec().version + 1, "star"), out);
    for (const std::string& each : out.lines)
      line += each;
  });
  CHECK(line == World::name(4) + " requests the graph star");
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
  CHECK(world->at(0).refusals().at("a graph version too far ahead") == 2);
  CHECK(world->at(0).spec().topology != "far");
  world->act(
      2, [&](Membership& m, MembershipEffects& out) { m.reconfigure(world->now(), "torus", out); });
  CHECK(world->run_until([&] { return world->one_view(); }, 20) < 15);
  CHECK(world->at(0).spec().topology == "torus");
}

TEST_CASE("nodes that a liar has led ahead through many graphs are followed by all others") {
  const auto world = converged(5, 6);
  world->partition({2, 3});
  const uint64_t before = world->at(2).spec().version;
  for (int k = 0; k < 10; ++k) {
    for (uint64_t jump = 1; jump < 1 << 20; jump *= 2) {
      MembershipPacket packet;
      packet.kind = MembershipPacket::Kind::sync_reply;
      const uint64_t version = world->at(0).spec().version + jump;
      packet.graph = signed_by(world->key(4), {version, World::name(4), "star", {}, {}});
      say(*world, 4, 0, packet);
    }
    world->run(world->now() + 1);
  }
  CHECK(world->at(0).spec().version > before + 30);
  CHECK(world->at(2).spec().version == before);
  world->heal();
  CHECK(world->run_until([&] { return world->one_view(); }, 60) < 30);
  CHECK(world->at(2).spec().version > before + 30);
}

TEST_CASE("an incarnation that jumps is refused and counted") {
  const auto world = converged(4, 4);
  for (const uint32_t jump : {1u << 16, kIncarnationsAtMost - 1, kIncarnationsAtMost}) {
    Member far = seen(*world, 3, 0);
    far.incarnation = jump;
    say(*world, 3, 0, word_of(*world, 3, far));
    CHECK(seen(*world, 3, 0).incarnation < 5u);
    far.node = "stranger";
    far.incarnation = jump + 1;
    say(*world, 3, 0, news_of(signed_by_itself(far)));
    CHECK_FALSE(world->at(0).table().find("stranger"));
  }
  CHECK(sum(world->at(0).refusals()) == 6u);
  CHECK(world->at(0).refusals().at("an incarnation too far ahead") >= 5u);
}

TEST_CASE("ranks out of bounds are refused, and of those that overlap every roster has one owner") {
  const auto world = converged(4, 5);
  Member m = seen(*world, 3, 0);
  ++m.refutations;
  m.ranks = kRanksOfNodeAtMost + 1;
  say(*world, 3, 0, word_of(*world, 3, m));
  m.ranks = 2;
  m.first_rank = kRankNumbersAtMost - 1;
  say(*world, 3, 0, word_of(*world, 3, m));
  CHECK(world->at(0).refusals().at("invalid ranks") == 2u);
  m.first_rank = world->at(1).self().first_rank;  // it wants those of another
  m.ranks = 4;
  for (int to = 0; to < 3; ++to) {
    say(*world, 3, to, word_of(*world, 3, m));
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
  const auto world = converged(3, 6);
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

TEST_CASE("a process in whose name another speaks goes on, and contests it where two say so") {
  const auto world = converged(4, 7);
  const uint32_t incarnation = world->at(1).self().incarnation;
  Member other = world->at(1).self();
  const auto say_it = [&](int tellers) {
    for (int k = 0; k < 300; ++k) {
      other.incarnation = world->at(1).self().incarnation + 1;
      say(*world, k % tellers * 2, 1, news_of(signed_by(key_of("another"), other)));
      world->run(world->now() + 0.01);
    }
  };
  say_it(1);
  CHECK(world->at(1).self().incarnation == incarnation);
  say_it(2);
  CHECK(world->at(1).self().incarnation >= incarnation + 2);
  CHECK(world->at(1).self().incarnation <= incarnation + 10);
}

TEST_CASE("a process that stood still and hears that another has its name by now is to end") {
  struct Case {
    double stood_still_s;
    bool other, over;
    int tellers;
    bool ends;
    uint32_t begins;
  };
  for (const Case c : {Case{3, true, false, 2, true, 0}, Case{3, true, false, 1, false, 0},
                       Case{0.5, true, false, 2, false, 2}, Case{3, false, false, 1, false, 2},
                       Case{3, true, true, 2, false, 2}}) {
    INFO(c.stood_still_s << " s, another process " << c.other << ", which is over " << c.over
                         << ", say " << c.tellers);
    const auto world = converged(4, 8);
    Member told = world->at(1).self();
    const uint32_t incarnation = told.incarnation;
    ++told.incarnation;
    ++told.life;
    told = signed_by(c.other ? key_of("another") : world->key(1), told);
    if (c.over) told.state = MemberState::dead;
    world->stop(1);
    world->run(world->now() + c.stood_still_s);
    bool ends = false;
    for (int teller = 0; teller < c.tellers; ++teller)
      world->act(1, [&](Membership& m, MembershipEffects& out) {
        m.packet(world->now(), World::name(2 * teller), news_of(told), out);
        ends = std::exchange(out.name_taken, false);
      });
    CHECK(ends == c.ends);
    CHECK(world->at(1).self().incarnation == incarnation + c.begins);
  }
}

TEST_CASE("a process that stood still refutes those of its name that it had heard of before") {
  const auto world = converged(4, 9);
  Member told = world->at(1).self();
  const NodeKey key = key_of("another");
  ++told.incarnation;
  say(*world, 0, 1, news_of(signed_by(key, told)));
  world->run(world->now() + 5);
  world->stop(1);
  world->run(world->now() + 3);
  world->go_on(1);
  told.incarnation = world->at(1).self().incarnation + 1;
  for (const int teller : {0, 2})
    say(*world, teller, 1, news_of(signed_by(key, told)));
  CHECK(world->at(1).self().incarnation > told.incarnation);
  CHECK(world->complaint() == "");
}
