// The promises of a member table, for any order of its news: one content, one epoch, one place for
// every rank; and the bounds of a packet of news.
#include <algorithm>
#include <set>

#include "actors/membership/piggyback_queue.hpp"
#include "kernels/base/random.hpp"
#include "messages/control_codec.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

Member member(const std::string& node, uint32_t first_rank, uint32_t incarnation = 1) {
  Member m;
  m.node = node;
  m.incarnation = incarnation;
  m.address = node + ":4000";
  m.first_rank = first_rank;
  m.ranks = 2;
  return m;
}

// Anything that any node could say of one of five nodes: an incarnation begins with any ranks, and
// goes on as a node lets it go on.
Member anything(Random& random) {
  const uint32_t node = random.below(5);
  Member m = member("n" + std::to_string(node), 2 * node, 1 + random.below(3));
  m.first_rank += m.incarnation;
  m.refutations = random.below(4);
  m.state = static_cast<MemberState>(random.below(4));
  if (m.state == MemberState::left) m.last_word = m.state;
  m.ready = m.refutations >= 2;  // once ready, ready for the rest of the incarnation
  m.finished = m.refutations >= 3;
  return m;
}

// Also what no honest node says: records of one order that differ in the rest.
Member anything_at_all(Random& random) {
  Member m = anything(random);
  m.ready = random.below(4) > 0;
  m.key[0] = static_cast<uint8_t>(random.below(2));
  m.stops = random.below(8) == 0;
  m.generation = random.below(3);
  m.means_asked = random.below(3);
  m.mean = {random.below(2), random.below(2)};
  if (random.below(3) == 0) m.unreachable = {random.below(3), 3};
  for (uint32_t k = 0; k < m.ranks; ++k) {
    const uint32_t later = random.below(3);
    if (random.below(2) == 0)
      m.gone.push_back({m.first_rank + k, m.incarnation + later, later > 0 && random.below(2) > 0});
  }
  return m;
}

std::string content(const MemberTable& table) {
  std::string text = table.spec().topology;
  for (const uint32_t i : table.by_name()) {
    const Member& m = table.at(i);
    text += " " + m.node + "." + std::to_string(m.incarnation) + "." +
            std::to_string(m.refutations) + "." + std::to_string(static_cast<int>(m.state)) +
            (m.ready ? "r" : "");
  }
  return text;
}

std::string graph(const MemberTable& table) {
  std::string text = table.spec().topology + std::to_string(table.spec().version);
  for (const uint32_t i : table.by_name()) {
    const Member& m = table.at(i);
    if (in_graph(m)) {
      text +=
          " " + m.node + "." + std::to_string(m.incarnation) + "@" + std::to_string(m.first_rank);
      for (const RankGone& g : m.gone)
        text += "-" + std::to_string(g.rank) + "." + std::to_string(g.incarnation) +
                (g.lives ? "+" : "");
    }
  }
  return text;
}

MemberTable table_of(const std::vector<Member>& members, size_t self) {
  MemberTable table(members[self], {});
  for (const Member& m : members)
    table.merge(m);
  return table;
}

}  // namespace

TEST_CASE("records may come in any order and any number of times: the table and epoch are one") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed, 0, Purpose::test);
    std::vector<Member> heard;
    for (int i = 0; i < 40; ++i)
      heard.push_back(anything(random));
    MemberTable forward(member("self", 90), {}), shuffled(member("self", 90), {});
    for (const Member& m : heard)
      forward.merge(m);
    heard.insert(heard.end(), heard.begin(), heard.begin() + 20);
    shuffle(heard.begin(), static_cast<uint32_t>(heard.size()), random);
    for (const Member& m : heard)
      shuffled.merge(m);
    INFO("seed " << seed);
    REQUIRE(content(forward) == content(shuffled));
    REQUIRE(forward.digest() == shuffled.digest());
    REQUIRE(forward.epoch() == shuffled.epoch());
  }
}

TEST_CASE("whatever is said of nodes, in any order, comes to one content") {
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed, 5, Purpose::test);
    std::vector<Member> heard;
    for (int i = 0; i < 60; ++i)
      heard.push_back(anything_at_all(random));
    MemberTable forward(member("self", 90), {}), shuffled(member("self", 90), {});
    for (const Member& m : heard) {
      const uint64_t epoch = forward.epoch();
      refused += forward.merge(m).refused != nullptr;
      REQUIRE(forward.epoch() >> 32 >= epoch >> 32);
    }
    shuffle(heard.begin(), static_cast<uint32_t>(heard.size()), random);
    for (const Member& m : heard)
      shuffled.merge(m);
    INFO("seed " << seed);
    for (const uint32_t i : forward.by_name())
      REQUIRE(forward.at(i) == shuffled.at(*shuffled.find(forward.at(i).node)));
    REQUIRE(forward.digest() == shuffled.digest());
    REQUIRE(forward.epoch() == shuffled.epoch());
    REQUIRE(forward.stopping() == shuffled.stopping());
    REQUIRE(forward.means_asked() == shuffled.means_asked());
  }
  CHECK(refused == 0u);
}

TEST_CASE("the run is to stop where one says so of this generation or of a later one") {
  Member self = member("a", 0), b = member("b", 2);
  self.generation = 2;
  MemberTable table(self, {});
  const uint64_t epoch = table.epoch(), digest = table.digest();
  b.stops = true;
  b.generation = 1;
  table.merge(b);  // of a run that has been resumed since
  CHECK_FALSE(table.stopping());
  CHECK(table.digest() != digest);
  ++b.refutations;
  b.generation = 2;
  const uint64_t with_b = table.epoch();
  table.merge(b);
  CHECK(table.stopping());
  CHECK(table.epoch() == with_b);
  CHECK(with_b != epoch);
  ++b.incarnation;
  b.generation = 3;
  table.merge(b);
  CHECK(table.stopping());
  ++b.refutations;
  b.generation = kGenerationsAtMost + 1;
  CHECK(table.merge(b).refused != nullptr);
}

TEST_CASE("of a node's end nobody says otherwise than it does itself") {
  MemberTable table(member("a", 0), {});
  Member b = member("b", 2);
  b.state = MemberState::left;
  CHECK(table.merge(b).refused != nullptr);  // it has not said so
  b.last_word = MemberState::left;
  b.state = MemberState::alive;
  CHECK(table.merge(b).refused != nullptr);
  b.state = MemberState::dead;
  CHECK(table.merge(b).refused != nullptr);
  for (const MemberState no_end : {MemberState::suspect, MemberState::dead}) {
    b.state = b.last_word = no_end;
    CHECK(table.merge(b).refused != nullptr);
  }
  b.state = b.last_word = MemberState::left;
  CHECK(table.merge(b).news);
}

TEST_CASE(
    "a rank that goes or returns raises the epoch, and each time it has another incarnation") {
  MemberTable table(member("a", 0), {});
  Member b = member("b", 2, 3);
  table.merge(b);
  const auto say = [&](std::vector<RankGone> gone) {
    const uint64_t epoch = table.epoch();
    b.gone = std::move(gone);
    ++b.refutations;
    const bool news = table.merge(b).news;
    CHECK((table.epoch() >> 32 > epoch >> 32) == news);
    return news;
  };
  CHECK(incarnation_of(b, 3) == 3u);
  CHECK(say({{3, 3, false}}));
  CHECK_FALSE(incarnation_of(b, 3).has_value());
  CHECK(incarnation_of(b, 2) == 3u);
  CHECK(say({{3, 4, true}}));
  CHECK(incarnation_of(b, 3) == 4u);
  CHECK_FALSE(say({{3, 3, false}}));  // it was so before
  CHECK(say({{3, 4, false}}));
  CHECK(last_incarnation(b) == 4u);
  CHECK_FALSE(say({{3, 5, false}, {3, 5, false}}));  // twice
  CHECK_FALSE(say({{4, 5, false}}));                 // not its rank
  CHECK_FALSE(say({{3, 3, true}}));                  // not a new incarnation
  CHECK_FALSE(say({{3, 3 + kChangesAtMost, true}}));
}

TEST_CASE("the epoch's counter never falls, and rises when the graph or its members change") {
  uint64_t rises = 0, suspicions = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed, 1, Purpose::test);
    MemberTable table(member("self", 90), {0, "", "ring"});
    for (int i = 0; i < 60; ++i) {
      const uint64_t epoch = table.epoch();
      const std::string before = graph(table);
      const bool spec = random.below(10) == 0;
      if (spec) {
        table.merge(GraphSpec{table.spec().version + 1, "n1", "torus"});
      } else {
        const auto merged = table.merge(anything(random));
        const bool suspected = merged.news && merged.before &&
                               merged.before->state == MemberState::alive &&
                               table.at(merged.index).state == MemberState::suspect;
        suspicions += suspected && before == graph(table);
      }
      INFO("seed " << seed << ", " << before << " -> " << graph(table));
      REQUIRE(table.epoch() >> 32 >= epoch >> 32);
      if (graph(table) == before) {
        REQUIRE((table.epoch() == epoch || table.epoch() >> 32 > epoch >> 32));
      } else {
        REQUIRE(table.epoch() >> 32 > epoch >> 32);
        ++rises;
      }
    }
  }
  CHECK(rises > 1000u);
  CHECK(suspicions > 20u);
}

TEST_CASE(
    "a suspicion and its refutation leave the epoch alone; an incarnation that is over stays "
    "over") {
  MemberTable table(member("a", 0), {});
  table.merge(member("b", 2));
  const uint64_t epoch = table.epoch();
  Member b = member("b", 2);
  b.state = MemberState::suspect;
  CHECK(table.merge(b).news);
  CHECK(table.epoch() == epoch);
  b.state = MemberState::alive;
  CHECK_FALSE(table.merge(b).news);
  b.refutations = 1;
  CHECK(table.merge(b).news);
  CHECK(table.epoch() == epoch);
  b.refutations = 0;
  b.state = MemberState::dead;
  CHECK(table.merge(b).news);
  CHECK(table.epoch() > epoch);
  b.refutations = 7;
  b.state = MemberState::alive;
  CHECK_FALSE(table.merge(b).news);
  CHECK(table.merge(member("b", 2, 2)).news);
  CHECK(table.live_count() == 2u);
}

TEST_CASE("whose ranks overlap is resolved by all nodes alike, at once, and nobody else moves") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed, 2, Purpose::test);
    std::vector<Member> members;
    for (uint32_t i = 0; i < 12; ++i) {
      Member m = member("n" + std::to_string(10 + i), random.below(8), 1 + random.below(2));
      if (random.below(4) == 0) m.first_rank = kAnyRank;
      m.ready = random.below(2) == 0;
      m.ranks = 1 + random.below(3);
      if (random.below(8) == 0) m.state = MemberState::dead;
      members.push_back(m);
    }
    std::vector<Member> moved = members;
    for (size_t self = 0; self < members.size(); ++self) {
      if (const auto first = table_of(members, self).move_to()) moved[self].first_rank = *first;
    }
    std::set<uint32_t> taken;
    for (size_t i = 0; i < members.size(); ++i) {
      INFO("seed " << seed << ", node " << i);
      if (moved[i].state == MemberState::dead) continue;
      for (uint32_t r = 0; r < moved[i].ranks; ++r)
        REQUIRE(taken.insert(moved[i].first_rank + r).second);
      REQUIRE_FALSE(table_of(moved, i).move_to().has_value());
    }
  }
}

TEST_CASE("records that cannot be are refused, and so are more than a table keeps") {
  MemberTable table(member("a", 0), {});
  Member m = member("b", kRankNumbersAtMost);
  CHECK(table.merge(m).refused != nullptr);  // ranks beyond the last number
  m = member("b", 2, 0);
  CHECK(table.merge(m).refused != nullptr);  // incarnations count from 1
  m = member(std::string(kNameBytes + 1, 'b'), 2);
  CHECK(table.merge(m).refused != nullptr);
  CHECK(table.merge(member("", 2)).refused != nullptr);
  m = member("b", 2);
  for (uint64_t name = 0; name <= kMaxUnreachable; ++name)
    m.unreachable.push_back(name);
  CHECK(table.merge(m).refused != nullptr);
  m.unreachable.pop_back();
  CHECK(table.merge(m).news);
  for (uint32_t i = 0; table.size() < kMembersAtMost; ++i)
    REQUIRE(table.merge(member("m" + std::to_string(i), 2)).news);
  CHECK(table.merge(member("z", 2)).refused != nullptr);
  CHECK(table.merge(member("m7", 2)).refused == nullptr);
}

TEST_CASE(
    "who takes any ranks leaves those of the dead, who may be back, and takes those of who left") {
  MemberTable table(member("a", kAnyRank), {});
  table.merge(member("b", 0));
  Member gone = member("c", 2);
  gone.state = MemberState::dead;
  table.merge(gone);
  CHECK(table.move_to() == 4u);
  gone.state = gone.last_word = MemberState::left;
  ++gone.incarnation;
  table.merge(gone);
  CHECK(table.move_to() == 2u);
}

TEST_CASE("a node that takes any ranks can say so on the wire") {
  MembershipPacket packet;
  packet.news.push_back(member("a", kAnyRank));
  packet.news.back().ranks = kRanksOfNodeAtMost;
  CHECK(validate(packet));
  CHECK(MemberTable(member("b", 0), {}).merge(packet.news[0]).refused == nullptr);
}

namespace {

RateFact rates_of(const Member& m, uint32_t part, uint64_t number, std::vector<EdgeRate> rates) {
  return {id_of(m.key), m.incarnation, part, number, std::move(rates), {}};
}

Member with_key(Member m, uint8_t key) {
  m.key[0] = key;
  return m;
}

}  // namespace

TEST_CASE(
    "of two facts of rates of one part the later one stands; those of the gone are forgotten") {
  MemberTable table(with_key(member("a", 0), 1), {});
  Member b = with_key(member("b", 2), 2);
  table.merge(b);
  CHECK(table.merge(rates_of(b, 0, 5, {{1, 2, 3.0}})));
  CHECK_FALSE(table.merge(rates_of(b, 0, 4, {{1, 2, 4.0}})));
  CHECK_FALSE(table.merge(rates_of(b, 0, 5, {{1, 2, 3.0}})));  // no news, and not told again
  CHECK(table.merge(rates_of(b, 1, 1, {{3, 4, 3.0}})));
  CHECK_FALSE(table.merge(rates_of(with_key(b, 3), 0, 9, {})));  // of nobody
  CHECK_FALSE(table.merge(rates_of(b, kRatePartsAtMost, 9, {})));
  CHECK(table.rates().size() == 2u);
  b.incarnation = 2;
  table.merge(b);
  table.forget_old_rates();
  CHECK(table.rates().empty());
}

TEST_CASE("of an edge counts what both ends say: of a far larger word twice the other's") {
  MemberTable table(with_key(member("a", 0), 1), {});
  const Member a = table.self(), b = with_key(member("b", 2), 2), c = with_key(member("c", 4), 3);
  table.merge(b);
  table.merge(c);
  const auto rate = [&](uint32_t i, uint32_t j) {
    for (const EdgeRate& r : table.edge_rates())
      if (r.i == i && r.j == j) return r.per_second;
    return 0.0;
  };
  table.merge(rates_of(b, 0, 1, {{0, 1, 7}, {2, 3, 9}, {3, 4, 1e9}, {1, 3, 1e9}}));
  CHECK(rate(0, 1) == 0);  // an edge of another
  CHECK(rate(2, 3) == 9);  // both of its ends are the speaker's
  CHECK(rate(3, 4) == 0);  // the other end says nothing
  table.merge(rates_of(c, 0, 1, {{3, 4, 5}}));
  CHECK(rate(3, 4) == 10);
  table.merge(rates_of(b, 0, 2, {{3, 4, 1e-9}, {1, 3, 1e9}}));
  CHECK(rate(3, 4) == 2e-9);
  table.merge(rates_of(b, 0, 3, {{3, 4, 6}, {1, 3, 1e9}}));
  CHECK(rate(3, 4) == 6);
  CHECK(rate(1, 3) == 0);
  table.merge(rates_of(a, 0, 1, {{1, 3, 2}}));  // one's own measurement, whatever the other says
  CHECK(rate(1, 3) == 2);
  Member gone = b;
  gone.state = MemberState::dead;
  table.merge(gone);
  CHECK(rate(2, 3) == 0);
}

TEST_CASE(
    "a table keeps so many facts of rates and no more, and believes no version beyond the last") {
  MemberTable table(member("self", 0), {});
  uint64_t kept = 0;
  for (uint32_t k = 0; k < 64; ++k) {
    Member m = with_key(member("m" + std::to_string(k), 2 + 2 * k), 1);
    m.key[1] = static_cast<uint8_t>(k);
    table.merge(m);
    for (uint32_t part = 0; part < kRatePartsAtMost; ++part)
      kept += table.merge(rates_of(m, part, 1, {}));
    CHECK(table.merge(rates_of(m, 0, 2, {})) == (k < kRateFactsAtMost / kRatePartsAtMost));
  }
  CHECK(kept == kRateFactsAtMost);
  CHECK_FALSE(table.merge(GraphSpec{kSpecsAtMost + 1, "b", "star", {}, {}}));
  CHECK(table.merge(GraphSpec{kSpecsAtMost, "b", "star", {}, {}}));
}

TEST_CASE("news travel 3 log2(n) times each, those that travelled least first, in small packets") {
  MemberTable table(member("n1000", 0), {});
  PiggybackQueue queue;
  for (uint32_t i = 1; i < 100; ++i)
    queue.member(table.merge(member("n" + std::to_string(1000 + i), 2 * i)).index);
  std::vector<int> told(100, 0);
  int packets = 0, fewest_at_half = 0;
  while (queue.pending() > 0) {
    MembershipPacket packet;
    queue.load(table, packet);
    const auto encoded = encode_control(packet);
    REQUIRE(encoded);
    REQUIRE(encoded->size() <= wire_bytes(packet));
    CHECK(wire_bytes(packet) < 1400u);
    for (const Member& m : packet.news)
      ++told[*table.find(m.node)];
    REQUIRE(++packets < 1000);
    if (packets == 7 * 34) fewest_at_half = *std::min_element(told.begin() + 1, told.end());
  }
  CHECK(*std::min_element(told.begin() + 1, told.end()) == 21);
  CHECK(*std::max_element(told.begin() + 1, told.end()) == 21);
  CHECK(fewest_at_half > 5);
}
