// The promises of membership without faults and with one fault, and the times that it takes.
#include <set>

#include "tests/catch.hpp"
#include "tests/membership/world.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

WorldSettings nodes(int count, uint64_t seed) {
  WorldSettings s;
  s.nodes = count;
  s.seed = seed;
  return s;
}

// Joined, quiet and at a random point of its periods.
std::unique_ptr<World> converged(const WorldSettings& settings) {
  auto world = std::make_unique<World>(settings);
  REQUIRE(world->run_until([&] { return world->one_view(); }, 20) < 20);
  world->run(world->now() + 5 + world->random().uniform());
  return world;
}

double until_all_see(World& world, int node, MemberState state) {
  return world.run_until([&] { return world.all_see(node, state); }, 30);
}

double until_one_view(World& world) {
  return world.run_until([&] { return world.one_view(); }, 30);
}

}  // namespace

TEST_CASE("nodes that know one address find each other and share the ranks out") {
  for (const int count : {1, 2, 3, 4, 16, 64}) {
    World world(nodes(count, 1));
    INFO(count << " nodes");
    CHECK(until_one_view(world) < 5);
    CHECK(world.view_difference() == "");
    CHECK(world.at(0).graph().front().first_rank == 0u);
    CHECK(world.complaint() == "");
    CHECK(world.accusations() == 0);
  }
}

TEST_CASE("nodes that begin alone and meet later agree on who keeps which ranks") {
  World world(nodes(1, 3));
  for (int i = 0; i < 3; ++i)
    world.join(0);
  world.partition({1});  // it begins alone after a while, as node 0 has
  world.run(5);
  CHECK(world.at(1).graph().size() == 1u);
  CHECK(world.at(1).self().first_rank == 0u);
  world.heal();
  CHECK(until_one_view(world) < 12);
  CHECK(world.view_difference() == "");
  CHECK(world.at(1).self().incarnation ==
        2u);  // its ranks are others now, and so is its incarnation
}

TEST_CASE("at rest nobody is suspected, and a node's traffic does not grow with their number") {
  double least = 1e9, most = 0;
  for (const int count : {4, 16, 64}) {
    const auto world = converged(nodes(count, 2));
    const double packets = world->packets(), bytes = world->bytes();
    world->run(world->now() + 60);
    const double each = (world->packets() - packets) / 60 / count;
    WARN(count << " idle nodes: " << each << " packets and "
               << (world->bytes() - bytes) / 60 / count << " bytes a second each");
    least = std::min(least, each);
    most = std::max(most, each);
    CHECK(world->accusations() == 0);
    CHECK(world->at(0).health() == 0);
  }
  CHECK(most < 1.2 * least);
  CHECK(most < 12);  // five pings and their acks
}

TEST_CASE("a stopped node is suspected by all within a second and dead 4.5 to 10.5 s later") {
  for (const int count : {4, 64}) {
    double worst_s = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const auto world = converged(nodes(count, seed));
      const int node = static_cast<int>(world->random().below(static_cast<uint32_t>(count)));
      world->stop(node);
      const double took_s = until_all_see(*world, node, MemberState::suspect);
      worst_s = std::max(worst_s, took_s);
      INFO("seed " << seed << ", node " << node);
      CHECK(took_s < 1);
      const double dead_s = until_all_see(*world, node, MemberState::dead);
      CHECK(dead_s > 4.5);
      CHECK(dead_s < 10.5);
    }
    WARN(count << " nodes: a stop is known to all after " << worst_s << " s at worst");
  }
}

TEST_CASE(
    "a node that was stopped for 3 s refutes; after 30 s it comes back in a new incarnation") {
  for (const auto& [stop_s, lives] : {std::pair(3.0, 0u), std::pair(30.0, 1u)}) {
    const auto world = converged(nodes(4, 5));
    const uint32_t incarnation = world->at(2).self().incarnation + lives;
    const uint64_t epoch = world->at(0).epoch();
    world->stop(2);
    world->run(world->now() + stop_s);
    CHECK(world->state_of(2, 0) == (lives == 0 ? MemberState::suspect : MemberState::dead));
    world->go_on(2);
    CHECK(until_one_view(*world) < 1);
    CHECK(world->at(2).self().incarnation == incarnation);
    CHECK((world->at(0).epoch() == epoch) == (lives == 0));
    CHECK(world->accusations_by(2) == 0);
  }
}

TEST_CASE("a node that wakes takes nobody for dead for what lapsed while it slept") {
  const auto world = converged(nodes(4, 6));
  const uint64_t epoch = world->at(1).epoch();
  world->stop(3);
  REQUIRE(until_all_see(*world, 3, MemberState::suspect) < 1);
  world->run(world->now() + 3);
  world->stop(0);  // it would take node 3 for dead two seconds later
  world->run(world->now() + 1);
  world->go_on(3);  // which refutes
  world->run(world->now() + 2.5);
  world->go_on(0);
  world->run(world->now() + 1);
  CHECK(world->false_deaths() == 0);
  CHECK(world->view_difference() == "");
  CHECK(world->at(1).epoch() == epoch);
}

TEST_CASE("far away is not ill: time-outs and the period follow the round trip") {
  WorldSettings settings = nodes(8, 4);
  settings.latency_s = 0.1;
  settings.jitter = 0.5;
  const auto world = converged(settings);
  world->run(world->now() + 30);
  const double packets = world->packets();
  world->run(world->now() + 60);
  CHECK((world->packets() - packets) / 60 / 8 < 6);  // no helper is asked
  CHECK(world->at(0).round_trip_s(World::name(1)) > 0.2);
  CHECK(world->at(0).round_trip_s(World::name(1)) < 0.3);
  CHECK(world->accusations() == 0);
  world->stop(1);
  CHECK(until_all_see(*world, 1, MemberState::suspect) < 8);
}

TEST_CASE(
    "a killed node is dead to all survivors within 50 ms, and its successor is a new incarnation") {
  for (const int count : {2, 4, 64}) {
    const auto world = converged(nodes(count, 7));
    const uint32_t incarnation = world->at(0).self().incarnation;
    world->kill(0);
    CHECK(until_all_see(*world, 0, MemberState::dead) < 0.05);
    world->restart(0);
    CHECK(until_one_view(*world) < 1);
    CHECK(world->at(0).self().incarnation == incarnation + 1);
    CHECK(world->at(0).self().first_rank == world->at(1).graph().front().first_rank);
  }
}

TEST_CASE(
    "a process that is back before its death was noticed begins a new incarnation all the same") {
  const auto world = converged(nodes(4, 16));
  for (int node = 0; node < 4; ++node) {
    const uint32_t incarnation = world->at(node).self().incarnation;
    world->restart(node);
    CHECK(until_one_view(*world) < 1);
    CHECK(world->at(node).self().incarnation > incarnation);
  }
  CHECK(world->complaint() == "");
}

TEST_CASE("a link that breaks between two living nodes is made anew and kills nobody") {
  const auto world = converged(nodes(4, 8));
  const uint64_t epoch = world->at(0).epoch();
  for (int i = 0; i < 20; ++i) {
    world->break_link(0, 1);
    CHECK(until_one_view(*world) < 1);
  }
  CHECK(world->false_deaths() == 0);
  CHECK(world->at(3).epoch() == epoch);
}

TEST_CASE("a link that is cut, both ways or one, suspects nobody for long and kills nobody") {
  for (const bool both : {false, true}) {
    const auto world = converged(nodes(4, 9));
    const uint64_t epoch = world->at(0).epoch();
    world->cut(0, 1);
    if (both) world->cut(1, 0);
    world->run(world->now() + 60);
    CHECK(world->false_deaths() == 0);
    CHECK(world->at(0).epoch() == world->at(1).epoch());
    world->heal();
    CHECK(until_one_view(*world) < 10);
    CHECK(world->at(0).epoch() == epoch);
  }
}

TEST_CASE("two halves that were parted for 10 s become one membership, one graph, one epoch") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const auto world = converged(nodes(4, seed));
    world->partition({0, 1});
    world->run(world->now() + 10.5);
    CHECK(world->state_of(2, 0) == MemberState::dead);
    CHECK(world->at(0).epoch() == world->at(1).epoch());
    CHECK(world->at(0).epoch() != world->at(2).epoch());
    world->heal();
    CHECK(until_one_view(*world) < 6);
    CHECK(world->view_difference() == "");
    CHECK(world->complaint() == "");
  }
}

TEST_CASE("who leaves is gone at once, and nobody looks for it") {
  const auto world = converged(nodes(4, 11));
  world->leave(0);
  CHECK(until_all_see(*world, 0, MemberState::left) < 0.02);
  CHECK(until_one_view(*world) < 1);
  CHECK(world->accusations() == 0);
}

TEST_CASE("of two wishes for another graph one wins everywhere, whoever is told first") {
  const auto world = converged(nodes(8, 12));
  const auto wish = [&](int node, const std::string& graph) {
    world->act(node, [&](Membership& m, MembershipEffects& out) {
      m.reconfigure(world->now(), graph, out);
      CHECK(out.changed);
    });
  };
  wish(6, "torus");
  wish(2, "exponential");
  CHECK(until_one_view(*world) < 0.1);
  CHECK(world->at(0).spec().topology == "torus");  // of equal versions the higher name's
  wish(2, "star");
  CHECK(until_one_view(*world) < 0.1);
  CHECK(world->at(7).spec().topology == "star");
}

TEST_CASE("that a run stops, and which means are wanted, is known to all, to newcomers too") {
  for (const int count : {4, 64}) {
    const auto world = converged(nodes(count, 17));
    const uint64_t epoch = world->at(0).epoch();
    const auto want = [&](int node) {
      world->act(node,
                 [&](Membership& m, MembershipEffects& out) { m.want_mean(world->now(), out); });
    };
    CHECK(world->at(0).means_asked() == 0u);
    want(1);
    const uint64_t first = world->at(1).means_asked();
    want(1);
    want(3);
    CHECK(until_one_view(*world) < 1);
    const uint64_t asked = world->at(1).means_asked();
    CHECK(asked != first);
    CHECK_FALSE(world->at(0).stopping());
    world->act(2, [&](Membership& m, MembershipEffects& out) { m.stop(world->now(), out); });
    const double took_s = until_one_view(*world);
    CHECK(took_s < 1);
    WARN(count << " nodes: all know of a stop after " << took_s << " s");
    for (int node = 0; node < count; ++node) {
      REQUIRE(world->at(node).stopping());
      REQUIRE(world->at(node).means_asked() == asked);
    }
    CHECK(world->at(0).epoch() == epoch);
    const int late = world->join(0);
    CHECK(until_one_view(*world) < 5);
    CHECK(world->at(late).stopping());
    CHECK(world->at(late).means_asked() == asked);
  }
}

TEST_CASE("means are asked for eight times in a row, and then once in two seconds") {
  const auto world = converged(nodes(3, 19));
  std::set<uint64_t> numbers;
  const double begun_s = world->now();
  while (world->now() < begun_s + 19) {
    world->act(1, [&](Membership& m, MembershipEffects& out) { m.want_mean(world->now(), out); });
    world->run(world->now() + 0.1);
    numbers.insert(world->at(0).means_asked());
  }
  CHECK(numbers.size() == 8u + 9);
  CHECK(world->complaint() == "");
}

TEST_CASE(
    "a node that is started again is the same member, and what it asked for is not forgotten") {
  const auto world = converged(nodes(4, 20));
  world->act(1, [&](Membership& m, MembershipEffects& out) {
    m.want_mean(world->now(), out);
    m.stop(world->now(), out);
  });
  REQUIRE(until_one_view(*world) < 1);
  const uint64_t asked = world->at(0).means_asked(), id = id_of(world->at(1).self().key);
  const uint32_t incarnation = world->at(1).self().incarnation;
  world->restart(1);
  CHECK(until_one_view(*world) < 5);
  CHECK(world->at(0).table().find(id) == world->at(0).table().find(World::name(1)));
  CHECK(world->at(1).self().incarnation > incarnation);
  for (int node = 0; node < 4; ++node) {
    CHECK(world->at(node).means_asked() == asked);
    CHECK(world->at(node).stopping());
  }
}

TEST_CASE("what a node says of itself, its ranks, its mean and whom it cannot reach, all know") {
  const auto world = converged(nodes(4, 18));
  const uint32_t first = world->at(2).self().first_rank;
  const uint64_t epoch = world->at(0).epoch();
  world->act(2, [&](Membership& m, MembershipEffects& out) {
    m.tell_mean(world->now(), {5, 6}, out);
    CHECK(m.unreachable(world->now(), World::name(1), true, out));
    CHECK_FALSE(m.unreachable(world->now(), "nobody", true, out));
  });
  CHECK(until_one_view(*world) < 1);
  CHECK(world->at(0).epoch() == epoch);
  world->act(2, [&](Membership& m, MembershipEffects& out) {
    CHECK(m.rank_gone(world->now(), first + 1, out));
    CHECK(out.changed);
    CHECK_FALSE(m.rank_gone(world->now(), first + 1, out));
    CHECK_FALSE(m.rank_gone(world->now(), first + 2, out));  // another node's
    CHECK_FALSE(m.rank_returned(world->now(), first, out));
  });
  CHECK(until_one_view(*world) < 1);
  const auto told = [&] { return world->at(0).table().at(*world->at(0).table().find("n10002")); };
  CHECK(told().mean == MeanTold{5, 6});
  CHECK(told().unreachable == std::vector{name_hash(World::name(1))});
  CHECK(told().gone == std::vector{RankGone{first + 1, told().incarnation, false}});
  CHECK(world->at(0).epoch() > epoch);
  world->act(2, [&](Membership& m, MembershipEffects& out) {
    CHECK(m.rank_returned(world->now(), first + 1, out));
    CHECK(m.unreachable(world->now(), World::name(1), false, out));
  });
  CHECK(until_one_view(*world) < 1);
  CHECK(incarnation_of(told(), first + 1) == told().incarnation + 1);
  CHECK(told().unreachable.empty());
  const uint32_t last = last_incarnation(told());
  world->act(2, [&](Membership& m, MembershipEffects& out) {
    m.become(world->now(), false, false, out);  // as after a failure: all its ranks begin anew
  });
  CHECK(until_one_view(*world) > 0);
  CHECK(world->at(2).self().incarnation > last);
  CHECK(world->at(2).self().gone.empty());
}

TEST_CASE("a node that is not ready is known and not in the graph; edge rates reach everybody") {
  const auto world = converged(nodes(8, 13));
  const uint64_t epoch = world->at(0).epoch();
  world->act(5, [&](Membership& m, MembershipEffects& out) {
    m.become(world->now(), false, false, out);
    CHECK(out.reborn);
  });
  world->run(world->now() + 2);
  CHECK(world->at(0).graph().size() == 7u);
  CHECK(world->at(0).members().size() == 8u);
  CHECK(world->at(0).epoch() > epoch);
  const uint32_t own = world->at(0).self().first_rank, other = world->at(3).self().first_rank;
  const uint32_t low = std::min(own, other), high = std::max(own, other);
  const auto measures = [&](int node, std::vector<EdgeRate> rates) {
    world->act(node,
               [&](Membership& m, MembershipEffects& out) { m.rates(world->now(), rates, out); });
    world->run(world->now() + 5);
  };
  const auto rate = [&](uint32_t i, uint32_t j) {
    for (const EdgeRate& r : world->at(7).edge_rates())
      if (r.i == i && r.j == j) return r.per_second;
    return 0.0;
  };
  measures(0, {{own, own + 1, 5}});
  CHECK(rate(own, own + 1) == 5);
  measures(0, {{own, own + 1, 5.2}});
  CHECK(rate(own, own + 1) == 5);  // too little a change
  measures(0, {{own, own + 1, 6}});
  CHECK(rate(own, own + 1) == 6);
  measures(0, {{low, high, 4}});
  CHECK(rate(low, high) == 0);  // what one end alone says
  measures(3, {{low, high, 4}});
  CHECK(rate(low, high) == 4);
  world->kill(3);
  world->run(world->now() + 1);
  CHECK(rate(low, high) == 0);  // it is in the graph no more
}

TEST_CASE("a slow node accuses nobody, and a suspect is answered by a probe at once") {
  int by_others = 0;
  for (const bool late_timers : {true, false}) {
    for (const double most_s : {0.15, 0.5, 1.0}) {
      for (const int count : {3, 8}) {
        const auto world = converged(nodes(count, 14));
        world->slow(1, most_s, late_timers);
        world->run(world->now() + 60);
        INFO(count << " nodes, late by up to " << most_s << " s");
        CHECK(world->accusations_by(1) == 0);
        CHECK(world->false_deaths() == 0);
        by_others += world->accusations();
      }
    }
  }
  WARN("a slow node was suspected, in vain, " << by_others << " times in 12 minutes");
  const auto world = converged(nodes(4, 15));
  world->stop(3);
  world->run(world->now() + 0.2);  // who has just answered is not asked again
  world->act(0, [&](Membership& m, MembershipEffects& out) {
    m.suspect(world->now(), World::name(3), out);
  });
  CHECK(until_all_see(*world, 3, MemberState::suspect) < 0.3);
}

TEST_CASE("after news a node compares views soon, then less and less often") {
  Member self, other;
  self.node = "a";
  self.address = "a:1";
  other.node = "b";
  other.address = "b:1";
  other.incarnation = 1;
  MembershipOptions options;
  options.signing = signing_of(key_of("a"));
  Membership a(self, options);
  MembershipEffects first;
  a.start(0, first);
  double at = first.timer_at, news_at = 0;
  a.link_up(0.01, "b", "b:1", first);
  std::vector<double> compared;
  // `b` says something new at 20 s, answers every ping, and says nothing else.
  const auto say = [&](double now, MembershipPacket packet, MembershipEffects& out) {
    a.packet(now, "b", packet, out);
  };
  MembershipPacket record;
  record.kind = MembershipPacket::Kind::sync_reply;
  record.news.push_back(signed_by_itself(other));
  MembershipEffects out;
  say(0.02, record, out);
  at = out.timer_at;
  while (at < 35) {
    double now = at;
    MembershipEffects effects;
    if (news_at == 0 && now > 20) {
      news_at = now;
      ++other.refutations;
      record.news[0] = signed_by_itself(other);
      say(now, record, effects);
    } else {
      a.timer(now, effects);
    }
    for (const auto& [to, packet] : MembershipEffects(effects).sends) {
      if (packet.kind == MembershipPacket::Kind::sync && news_at > 0)
        compared.push_back(now - news_at);
      if (packet.kind != MembershipPacket::Kind::ping) continue;
      MembershipPacket ack;
      ack.kind = MembershipPacket::Kind::ack;
      ack.sequence = packet.sequence;
      say(now + 1e-4, ack, effects);
      now += 1e-4;
    }
    at = effects.timer_at;
  }
  REQUIRE(compared.size() >= 4);
  CHECK(compared.size() <= 6);
  CHECK(compared[0] < 0.5);
  CHECK(compared[3] - compared[2] > 2 * (compared[1] - compared[0]));
}

TEST_CASE("of many nodes each has links with few, and what is not needed any more is closed") {
  const auto world = converged(nodes(64, 19));
  world->run(world->now() + 30);
  int most = 0, sum = 0;
  for (int node = 0; node < 64; ++node) {
    most = std::max(most, world->links_of(node));
    sum += world->links_of(node);
  }
  WARN("64 nodes: " << sum / 64.0 << " links each, " << most << " at most");
  CHECK(most <= 12);
  const auto linked = [&](int a, int b) { return world->at(a).linked(World::name(b)); };
  const auto talk = [&](int node, const std::vector<int>& others) {
    std::vector<uint32_t> members;
    for (const int other : others)
      members.push_back(*world->at(node).table().find(World::name(other)));
    world->act(node, [&](Membership& m, MembershipEffects& out) {
      m.exchange_with(world->now(), members, out);
    });
  };
  std::vector<int> others;
  for (int other = 0; other < 64; ++other)
    if (other != 7 && !linked(7, other)) others.push_back(other);
  talk(7, others);
  const auto all = [&] { return world->links_of(7) == 63; };
  CHECK(world->run_until(all, 5) < 1);
  world->run(world->now() + 20);
  CHECK(world->links_of(7) == 63);
  talk(7, {});
  world->run(world->now() + 9);
  CHECK(world->links_of(7) == 63);  // it may be needed again soon
  world->run(world->now() + 6);
  CHECK(world->links_of(7) <= 12);
  world->act(7, [&](Membership& m, MembershipEffects& out) {
    m.need_link(world->now(), World::name(others.front()), out);
  });
  CHECK(world->run_until([&] { return linked(7, others.front()); }, 5) < 0.1);
  world->run(world->now() + 17);
  CHECK_FALSE(linked(7, others.front()));
  CHECK(world->accusations() == 0);
  CHECK(world->view_difference() == "");
}

TEST_CASE(
    "no node has more links than it may, and those that others needed for a while are closed") {
  const auto world = converged(nodes(200, 20));
  for (int node = 1; node < 200; ++node)
    world->act(node, [&](Membership& m, MembershipEffects& out) {
      m.need_link(world->now(), World::name(0), out);
    });
  world->run(world->now() + 4);
  CHECK(world->links_of(0) <= static_cast<int>(kLinksAtMost));
  CHECK(world->links_of(0) > static_cast<int>(kLinksAtMost / 2));
  world->run(world->now() + 20);
  CHECK(world->links_of(0) <= 12);
  CHECK(world->false_deaths() == 0);
}

TEST_CASE("that a link was needed for a while does not make it needed again") {
  const auto world = converged(nodes(64, 22));
  world->run(world->now() + 20);
  int far = 1;
  while (world->at(0).linked(World::name(far)))
    ++far;
  world->cut(0, far);
  world->cut(far, 0);
  world->act(0, [&](Membership& m, MembershipEffects& out) {
    m.need_link(world->now(), World::name(far), out);
  });
  CHECK(world->at(0).needs_link(world->now(), World::name(far)));
  world->run(world->now() + 6);
  CHECK_FALSE(world->at(0).needs_link(world->now(), World::name(far)));
  CHECK(world->accusations() == 0);
}

TEST_CASE("a suspect without a link is dialled, and its clock starts when the link is up") {
  const auto world = converged(nodes(64, 21));
  world->run(world->now() + 20);  // what was needed to meet is closed
  int far = 1;
  while (world->at(0).linked(World::name(far)))
    ++far;
  world->act(0, [&](Membership& m, MembershipEffects& out) {
    m.suspect(world->now(), World::name(far), out);
  });
  CHECK(world->run_until([&] { return world->at(0).linked(World::name(far)); }, 5) < 0.1);
  world->run(world->now() + 5);
  CHECK(world->at(0).round_trip_s(World::name(far)) > 0);
  CHECK(world->accusations() == 0);
}
