// The promises of one node, whatever its peers send. The test plays the peers, which send only
// messages that the test gives.
#include <algorithm>

#include "actors/membership/membership.hpp"
#include "tests/catch.hpp"
#include "tests/signing.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

using Kind = MembershipPacket::Kind;

Member other(const std::string& node, uint32_t first_rank) {
  Member m;
  m.node = node;
  m.address = node + ":1";
  m.incarnation = 1;
  m.first_rank = first_rank;
  m.ranks = 1;
  return signed_by_itself(m);
}

MembershipOptions with_key(MembershipOptions options) {
  options.signing = signing_of(key_of("a"));
  return options;
}

MembershipPacket packet_of(Kind kind, uint64_t sequence = 0, const std::string& target = "") {
  MembershipPacket packet;
  packet.kind = kind;
  packet.sequence = sequence;
  packet.target = target;
  return packet;
}

/// Node a, and what it does.
class Alone {
 public:
  explicit Alone(MembershipOptions options = {}) : a(other("a", 0), with_key(std::move(options))) {
    act([&](MembershipEffects& out) { a.start(now, out); });
  }
  /// Links with all of them, which it hears of from the first.
  void meet(const std::vector<std::string>& nodes) {
    MembershipPacket all = packet_of(Kind::sync_reply);
    for (size_t k = 0; k < nodes.size(); ++k)
      all.news.push_back(other(nodes[k], static_cast<uint32_t>(k + 1)));
    for (const std::string& node : nodes)
      act([&](MembershipEffects& out) { a.link_up(now, node, node + ":1", out); });
    hear(nodes.front(), all);
  }
  void hear(const std::string& from, const MembershipPacket& packet) {
    act([&](MembershipEffects& out) { a.packet(now, from, packet, out); });
  }
  void act(const std::function<void(MembershipEffects&)>& event) {
    MembershipEffects out;
    event(out);
    timer_at = out.timer_at;
    for (auto& each : out.sends)
      sends.push_back(std::move(each));
    for (const std::string& address : out.dials)
      dials.emplace_back(address, now);
    lines.insert(lines.end(), out.lines.begin(), out.lines.end());
  }
  void run(double until_s) {
    while (timer_at <= until_s) {
      now = std::max(now, timer_at);
      act([&](MembershipEffects& out) { a.timer(now, out); });
    }
    now = until_s;
  }
  MemberState state_of(const std::string& node) const {
    return a.table().at(*a.table().find(node)).state;
  }
  /// Of what it has sent.
  ptrdiff_t count(const std::string& to, Kind kind) const {
    return std::count_if(sends.begin(), sends.end(), [&](const OutgoingPacket& sent) {
      return sent.to == to && sent.packet.kind == kind;
    });
  }

  double now = 0, timer_at = 0;
  Membership a;
  std::vector<OutgoingPacket> sends;
  std::vector<std::pair<std::string, double>> dials;  // when
  std::vector<std::string> lines;
};

MembershipPacket news_of(const Member& m) {
  MembershipPacket packet = packet_of(Kind::sync_reply);
  packet.news.push_back(m);
  return packet;
}

GraphSpec graph(GraphSpec spec) { return signed_by_itself(std::move(spec)); }

}  // namespace

TEST_CASE("a newcomer takes any version of the graph, where nobody else says less") {
  MembershipOptions options;
  options.join = {"b:1"};
  Alone node(options);
  MembershipPacket view = packet_of(Kind::sync_reply, 1);
  view.news = {other("b", 1), other("c", 2)};
  view.graph = graph({1 << 20, "b", "star", {}, {}});
  node.act([&](MembershipEffects& out) { node.a.link_up(node.now, "b", "b:1", out); });
  node.hear("b", view);
  node.run(1);
  CHECK(node.a.spec().version == 0);
  SECTION("nobody says anything") { node.run(3); }
  SECTION("a second node says the same") {
    node.hear("c", view);
    node.run(1.1);
  }
  SECTION("a second node of the graph says less") {
    view.graph = graph({1, "c", "chain", {}, {}});
    node.hear("c", view);
    node.run(5);
    CHECK(node.a.spec().topology == "chain");
    return;
  }
  CHECK(node.a.spec().topology == "star");
  view.graph = graph({1 << 21, "b", "chain", {}, {}});
  node.hear("b", view);
  node.run(6);
  CHECK(node.a.spec().topology == "star");
  CHECK(node.a.refusals().at("a graph version too far ahead") == 1u);
}

TEST_CASE("who has found a node silent itself believes the first who says that it is dead") {
  Alone node;
  node.meet({"b", "c", "d"});
  Member dead = other("c", 2);
  dead.state = MemberState::dead;
  node.act([&](MembershipEffects& out) { node.a.link_down(node.now, "c", out); });
  REQUIRE(node.state_of("c") == MemberState::suspect);
  node.hear("d", news_of(dead));
  CHECK(node.state_of("c") == MemberState::dead);
  dead = other("b", 1);
  dead.state = MemberState::dead;
  node.hear("d", news_of(dead));  // nothing was found of this one
  CHECK(node.state_of("b") == MemberState::suspect);
}

TEST_CASE("one accuser shortens the time that a suspect has once, however often it accuses") {
  Alone node;
  node.meet({"b", "c", "d", "e", "f"});
  Member suspect = other("c", 2);
  suspect.state = MemberState::suspect;
  suspect.accuser = 7;
  for (int k = 0; k < 10; ++k)
    node.hear("b", news_of(suspect));
  REQUIRE(node.state_of("c") == MemberState::suspect);
  node.run(6);  // two accusers at most by now: 7, and this node that hears nothing
  CHECK(node.state_of("c") == MemberState::suspect);
  suspect.accuser = 8;
  node.hear("b", news_of(suspect));
  suspect.accuser = 9;
  node.hear("b", news_of(suspect));
  node.run(6.1);
  CHECK(node.state_of("c") == MemberState::dead);
}

TEST_CASE("a node probes so many for others at once, and no more") {
  Alone node;
  node.meet({"b", "c"});
  node.sends.clear();
  for (uint64_t k = 1; k <= 1000; ++k)
    node.hear("b", packet_of(Kind::ping_request, k, "c"));
  CHECK(node.count("c", Kind::ping) == 256);
}

TEST_CASE("of nacks so many count as helpers were asked") {
  Alone node;
  node.meet({"b", "c"});
  const auto pinged = [&] {
    return std::find_if(node.sends.begin(), node.sends.end(), [](const auto& sent) {
      return sent.to == "c" && sent.packet.kind == Kind::ping;
    });
  };
  while (pinged() == node.sends.end() && node.now < 5)
    node.run(node.now + 0.01);
  REQUIRE(pinged() != node.sends.end());
  const uint64_t sequence = pinged()->packet.sequence;
  for (int k = 0; k < 100; ++k)
    node.hear("b", packet_of(Kind::nack, sequence, "c"));
  node.run(node.now + 2);
  const auto why = std::find_if(node.lines.begin(), node.lines.end(), [](const std::string& line) {
    return line.starts_with("c (incarnation 1) is suspected: no answer");
  });
  REQUIRE(why != node.lines.end());
  CHECK_THAT(*why, Catch::EndsWith(", 0 others had none either") ||
                       Catch::EndsWith(", 1 others had none either"));
}

TEST_CASE("a whole view goes to a node once a second at most, however often it asks") {
  Alone node;
  node.meet({"b", "c"});
  node.run(5);
  const auto views = [&] {
    return std::count_if(node.sends.begin(), node.sends.end(), [](const auto& sent) {
      const MembershipPacket& packet = sent.packet;
      return sent.to == "b" && packet.kind == Kind::sync_reply && packet.sequence != 0;
    });
  };
  const ptrdiff_t before = views();
  for (int k = 0; k < 100; ++k)
    node.hear("b", packet_of(Kind::sync, 12345));  // what it knows is said to be something else
  CHECK(views() == before + 1);
  node.run(6.1);
  node.hear("b", packet_of(Kind::sync, 12345));
  CHECK(views() == before + 2);
}

TEST_CASE(
    "who closes a link that is needed here is dialled at once, but later if it does so again") {
  Alone node;
  node.meet({"b", "c"});
  node.run(1);
  const auto closes = [&](const std::string& what) {
    node.dials.clear();
    node.act([&](MembershipEffects& out) { node.a.link_down(node.now, "b", out, true); });
    node.run(node.now + 3);
    INFO(what);
    REQUIRE_FALSE(node.dials.empty());
    CHECK(node.dials[0].first == "b:1");
    return node.dials[0].second;
  };
  CHECK(closes("once") - 1 < 0.1);
  node.act([&](MembershipEffects& out) { node.a.link_up(node.now, "b", "b:1", out); });
  CHECK(closes("again") - 4 >= 2);
}

TEST_CASE("the addresses to join are tried until one leads to a node, and again by who is alone") {
  MembershipOptions options;
  options.join = {"peers:1"};
  Alone node(options);
  const auto tries = [&](double until_s) {
    node.dials.clear();
    node.run(until_s);
    return std::count_if(node.dials.begin(), node.dials.end(),
                         [](const auto& dial) { return dial.first == "peers:1"; });
  };
  CHECK(tries(10) >= 3);
  node.act([&](MembershipEffects& out) { node.a.link_up(node.now, "b", "peers:1", out); });
  node.hear("b", news_of(other("b", 1)));
  CHECK(tries(11) == 0);
  node.act([&](MembershipEffects& out) { node.a.link_down(node.now, "b", out); });
  CHECK(tries(60) >= 5);
}
