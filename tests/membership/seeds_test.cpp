// Membership under faults at random, one world per seed, and a thousand nodes at once.
//
//   GRAPEVINE_SEEDS=1000 bin/membership_test "after any faults*"     more seeds than the usual 100
//   GRAPEVINE_SEED=17    bin/membership_test "after any faults*"     that one alone
#include "tests/seeds.hpp"
#include "messages/control_codec.hpp"
#include "tests/catch.hpp"
#include "tests/membership/world.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr double kFaults_s = 40;
constexpr double kOneView_s = 15;  // after the last fault

// A running node, at least one of which there always is.
int someone(World& world) {
  int node = 0;
  do {
    node = static_cast<int>(world.random().below(static_cast<uint32_t>(world.count())));
  } while (!world.running(node));
  return node;
}

int running(const World& world) {
  int count = 0;
  for (int node = 0; node < world.count(); ++node)
    count += world.running(node);
  return count;
}

void hurt_or_stop(World& world) {
  const int node = someone(world), other = someone(world);
  const bool spare = running(world) > 2;
  switch (world.random().below(10)) {
    case 0: return spare ? world.kill(node) : void();
    case 1: return spare ? world.stop(node) : void();
    case 2: return spare ? world.leave(node) : void();
    case 3: return world.slow(node, world.random().uniform(), world.random().below(2) == 0);
    case 4: return node != other ? world.cut(node, other) : void();
    case 5: return node != other ? world.break_link(node, other) : void();
    case 6: return world.partition({node, other});
    case 7: return world.loss(0.3 * world.random().uniform());
    case 8: return world.count() < 10 ? void(world.join(node)) : void();
    default:
      world.act(node, [&](Membership& m, MembershipEffects& out) {
        m.reconfigure(world.now(), "graph-" + std::to_string(world.random().below(1000)), out);
      });
  }
}

void wake_or_restart(World& world) {
  const int node = static_cast<int>(world.random().below(static_cast<uint32_t>(world.count())));
  if (world.stopped(node)) {
    world.go_on(node);
  } else if (!world.running(node)) {
    world.restart(node, world.random().below(3) > 0);
  } else if (world.random().below(3) == 0) {
    world.heal();
  }
}

void end_all_faults(World& world) {
  world.heal();
  world.loss(0);
  for (int node = 0; node < world.count(); ++node) {
    world.slow(node, 0);
    if (world.stopped(node)) world.go_on(node);
  }
}

}  // namespace

TEST_CASE("after any faults all nodes come to one view, one graph and one epoch within 15 s") {
  double worst_s = 0, sum_s = 0;
  const Seeds seeds = seeds_wanted(100);
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    WorldSettings settings;
    settings.seed = seed;
    settings.nodes = 2 + static_cast<int>(seed % 7);
    World world(settings);
    double at = 1;
    while (at < kFaults_s) {
      world.run(at);
      world.random().below(2) == 0 ? hurt_or_stop(world) : wake_or_restart(world);
      at += 3 * world.random().exponential();
    }
    end_all_faults(world);
    const double took_s = world.run_until([&] { return world.one_view(); }, kOneView_s);
    INFO(settings.name() << "\nagain: GRAPEVINE_SEED=" << seed
                         << " bin/membership_test \"after any faults*\"");
    REQUIRE(world.complaint() == "");
    REQUIRE(world.view_difference() == "");
    REQUIRE(took_s <= kOneView_s);
    worst_s = std::max(worst_s, took_s);
    sum_s += took_s;
  }
  WARN("one view after " << sum_s / static_cast<double>(seeds.last - seeds.first + 1)
                         << " s in the mean, " << worst_s << " s at worst");
}

TEST_CASE(
    "without faults nobody is suspected; with every fifth packet lost nobody is taken for dead") {
  for (const double loss : {0.0, 0.2}) {
    int accusations = 0, deaths = 0;
    double node_hours = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      WorldSettings settings;
      settings.seed = seed;
      settings.nodes = 8;
      World world(settings);
      REQUIRE(world.run_until([&] { return world.one_view(); }, 20) < 20);
      world.loss(loss);
      world.run(150);
      accusations += world.accusations();
      deaths += world.false_deaths();
      node_hours += 8 * 150.0 / 3600;
      CHECK(world.complaint() == "");
    }
    WARN("loss " << loss << ": " << accusations / node_hours << " suspicions and "
                 << deaths / node_hours << " deaths per node and hour, in vain");
    CHECK(deaths == 0);
    CHECK((accusations == 0 || loss > 0));
  }
}

TEST_CASE("whatever a peer says, a node stays alive in its own eyes and what it sends is valid") {
  uint64_t sent = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed, 3, Purpose::test);
    const auto some_name = [&] { return "n" + std::to_string(random.below(6)); };
    Member self;
    self.node = "n0";
    self.ranks = 2;
    MembershipOptions options;
    options.seed = seed;
    options.join = {"h:1", "h:2"};
    options.signing = signing_of(key_of("n0"));
    Membership node(self, options);
    double now = 0;
    MembershipEffects out;
    node.start(now, out);
    for (int i = 0; i < 500; ++i) {
      now += random.below(50) == 0 ? 20 : 0.1 * random.uniform();
      MembershipPacket packet;
      packet.kind = static_cast<MembershipPacket::Kind>(random.below(6));
      packet.sequence = random.below(20);
      packet.target = random.below(2) == 0 ? some_name() : "";
      for (uint32_t k = random.below(4); k > 0; --k) {
        Member m;
        m.node = some_name();
        m.incarnation =
            random.below(20) == 0 ? static_cast<uint32_t>(random.bits()) : random.below(5);
        m.refutations = random.below(5);
        m.state = static_cast<MemberState>(random.below(4));
        m.first_rank = random.below(3) == 0 ? kAnyRank : static_cast<uint32_t>(random.bits());
        m.ranks = random.below(3) == 0 ? 0xffffffff : random.below(5);
        m.ready = random.below(2) == 0;
        if (m.state == MemberState::left) m.last_word = m.state;
        m = random.below(4) == 0 ? signed_by(key_of("another"), m) : signed_by_itself(m);
        packet.news.push_back(m);
      }
      if (random.below(20) == 0)
        packet.graph = signed_by_itself(GraphSpec{random.bits(), some_name(), "torus", {}, {}});
      RateFact fact{
          id_of(key_of(some_name()).public_key()), 1, random.below(3), random.bits(), {}, {}};
      fact.rates = {{random.below(9), random.below(9), random.uniform()}};
      packet.rates = {fact};
      out = {};
      switch (random.below(8)) {
        case 0: node.timer(now, out); break;
        case 1: node.link_up(now, some_name(), "h:1", out); break;
        case 2: node.link_down(now, some_name(), out); break;
        case 3: node.refused(now, "", out); break;
        case 4: node.reconfigure(now, "star", out); break;
        default: node.packet(now, some_name(), packet, out);
      }
      INFO("seed " << seed << ", event " << i);
      REQUIRE(node.self().state == MemberState::alive);
      REQUIRE(out.timer_at >= now);
      for (const auto& [to, sends] : out.sends)
        REQUIRE(validate(sends));
      sent += out.sends.size();
    }
  }
  CHECK(sent > 1000u);
}

TEST_CASE("a thousand nodes of which a tenth vanish at once come to one view") {
  WorldSettings settings;
  settings.nodes = 1000;
  settings.acquainted = true;
  World world(settings);
  world.run(16);  // the links that were needed to meet are closed
  CHECK(world.view_difference() == "");
  const double idle_packets = world.packets(), idle_bytes = world.bytes();
  world.run(19);
  WARN("1,000 idle nodes: " << (world.packets() - idle_packets) / 3000 << " packets and "
                            << (world.bytes() - idle_bytes) / 3000 << " bytes a second each");
  for (int node = 0; node < 1000; node += 10) {
    if (node % 20 == 0) {
      world.stop(node);  // the machine: no link breaks
    } else {
      world.kill(node);
    }
  }
  const double packets = world.packets(), bytes = world.bytes();
  const double took_s = world.run_until([&] { return world.one_view(); }, 60);
  CHECK(world.view_difference() == "");
  CHECK(took_s < 20);
  CHECK(world.false_deaths() == 0);
  WARN("after a tenth has gone: one view after "
       << took_s << " s, " << (world.packets() - packets) / took_s / 900 << " packets and "
       << (world.bytes() - bytes) / took_s / 900 << " bytes a second and node meanwhile");
}
