// Push-sum mass changes hands once, whatever is lost, repeated or cut on its way.
#include <limits>

#include "actors/cluster/mass_hand_over.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr MassHandOver::Shape kShape{DType::f64, 4};

Payload mean_of(double value, size_t count = 4, DType dtype = DType::f64) {
  SnapshotPool pool(count, dtype, 1);
  Payload payload{pool.take(), dtype, count, 0};
  if (dtype == DType::f64)
    for (size_t k = 0; k < count; ++k)
      payload.lease.writable().as<double>()[k] = value;
  return payload;
}

MassEffects came(MassHandOver& heir, const PushSumMass& mass, const Payload& mean,
                 bool serves = true, MassHandOver::Giver giver = {2, 1}) {
  MassEffects out;
  heir.came("giver", mass, mean, serves, giver, out);
  return out;
}

MassEffects seen(MassHandOver& heir, uint32_t incarnation, MemberState state,
                 const std::string& node = "giver") {
  MassEffects out;
  heir.seen(node, incarnation, state, out);
  return out;
}

/// Of weight 1.5, in incarnation 3, at the time 1.
struct Giver {
  explicit Giver(std::vector<MassHandOver::Heir> heirs) {
    hand_over.give(1, 1.5, mean_of(3));
    view(1, 3, std::move(heirs));
  }
  void view(double now, uint32_t incarnation, std::vector<MassHandOver::Heir> heirs) {
    out = {};
    hand_over.view(now, incarnation, std::move(heirs), out);
  }
  void timer(double now) {
    out = {};
    hand_over.timer(now, out);
  }
  bool receipt(const std::string& from, uint64_t number) {
    out = {};
    hand_over.receipt(from, number, out);
    return out.arrived;
  }

  MassHandOver hand_over{kShape};
  MassEffects out;  // of the last event
};

const MassHandOver::Heir kNear{"near", 7, true}, kFar{"far", 9, true}, kCut{"cut", 8, false};

}  // namespace

TEST_CASE("the giver sends again until the receipt is there") {
  Giver giver({kNear});
  REQUIRE(giver.out.gives.size() == 1);
  const PushSumMass given = giver.out.gives[0].mass;
  CHECK(given == PushSumMass{3, 7, 1.5});
  CHECK(giver.out.timer_at == 1.5);
  giver.timer(1.5);
  REQUIRE(giver.out.gives.size() == 1);
  CHECK(giver.out.gives[0].mass == given);
  CHECK_FALSE(giver.receipt("far", 3));
  CHECK_FALSE(giver.receipt("near", 2));
  CHECK(giver.receipt("near", 3));
  CHECK_FALSE(giver.receipt("near", 3));
  giver.timer(9);
  CHECK((giver.out.gives.empty() && !giver.out.renews));
  giver.timer(99);
  CHECK(giver.out.lost == 0);
}

TEST_CASE("an heir that is silent or gone is followed by another, in the next incarnation") {
  for (const bool is_gone : {false, true}) {
    Giver giver({kNear, kFar});
    CHECK(giver.out.gives[0].to == "near");
    if (is_gone) {
      giver.view(1.2, 3, {kFar});
    } else {
      for (double now = 1.5; now < 4; now += 0.5) {
        giver.timer(now);
        CHECK((giver.out.gives.size() == 1 && !giver.out.renews));
      }
      giver.timer(4);
    }
    CHECK((giver.out.renews && giver.out.gives.empty()));
    CHECK_FALSE(giver.receipt("near", 3));  // too late: it may not keep what another is to have
    giver.timer(4.5);
    CHECK((!giver.out.renews && giver.out.gives.empty()));  // once, and not before it is so
    giver.view(4.6, 4, {kFar});
    REQUIRE(giver.out.gives.size() == 1);
    CHECK(giver.out.gives[0].to == "far");
    CHECK(giver.out.gives[0].mass == PushSumMass{4, 9, 1.5});
    CHECK(giver.receipt("far", 4));
  }
}

TEST_CASE("a giver that others took for dead hands over again, though it had a receipt") {
  Giver giver({kNear});
  CHECK(giver.receipt("near", 3));
  giver.view(2, 4, {kNear});
  REQUIRE(giver.out.gives.size() == 1);
  CHECK(giver.out.gives[0].mass.hand_over == 4);
  CHECK(giver.receipt("near", 4));
}

TEST_CASE("who can reach nobody asks for a link, and says at its deadline how much is lost") {
  Giver giver({kCut});
  CHECK(giver.out.gives.empty());
  CHECK(giver.out.link == "cut");
  giver.timer(10.9);
  CHECK(giver.out.lost == 0);
  giver.timer(11);
  CHECK(giver.out.lost == 1.5);
  CHECK_FALSE(giver.hand_over.gives());
  Giver last({});
  CHECK(last.out.lost == 1.5);  // nobody is there: it need not wait
  Giver lone({kNear});          // who alone could take it is not given up before the deadline
  lone.timer(8);
  CHECK((lone.out.gives.size() == 1 && !lone.out.renews));
  lone.timer(11);
  CHECK(lone.out.lost == 1.5);
  CHECK_FALSE(lone.receipt("near", 3));
}

TEST_CASE("the heir says each time that it has it, and inherits once, when the giver has left") {
  MassHandOver heir(kShape);
  const PushSumMass mass{1, 7, 1.5};
  CHECK(came(heir, mass, mean_of(3)).receipts.size() == 1);
  const MassEffects repeated = came(heir, mass, mean_of(3));
  CHECK((repeated.receipts.size() == 1 && repeated.inherits.empty()));
  CHECK(seen(heir, 1, MemberState::left, "somebody").inherits.empty());
  CHECK(seen(heir, 1, MemberState::suspect).inherits.empty());
  const MassEffects out = seen(heir, 1, MemberState::left);
  REQUIRE(out.inherits.size() == 1);
  CHECK(out.inherits[0].weight == 1.5);
  CHECK(out.inherits[0].rank == 7);
  CHECK(seen(heir, 1, MemberState::left).inherits.empty());
  came(heir, mass, mean_of(3));  // a repeat that was under way when the giver left
  CHECK(seen(heir, 1, MemberState::left).inherits.empty());
}

TEST_CASE("an heir does not inherit of who is dead or goes on; who is dead may have left before") {
  for (const bool goes_on : {false, true}) {
    MassHandOver heir(kShape);
    came(heir, {1, 7, 1.5}, mean_of(3));
    CHECK(seen(heir, 1, MemberState::dead).inherits.empty());
    if (goes_on) CHECK(seen(heir, 2, MemberState::alive).inherits.empty());
    CHECK(seen(heir, goes_on ? 2 : 1, MemberState::left).inherits.size() == (goes_on ? 0 : 1));
  }
  MassHandOver heir(kShape);  // what was given in an earlier incarnation comes late
  CHECK(came(heir, {1, 7, 1.5}, mean_of(3), true, {2, 2}).receipts.empty());
  CHECK(came(heir, {3, 7, 1.5}, mean_of(3), true, {2, 2}).receipts.size() == 1);
  CHECK(came(heir, {2, 7, 1.5}, mean_of(3), true, {2, 2}).receipts.empty());
  CHECK(seen(heir, 3, MemberState::left).inherits.size() == 1);
}

TEST_CASE("an heir that leaves itself hands its givers' mass over with its own") {
  MassHandOver both(kShape);
  came(both, {1, 7, 0.5}, mean_of(7));
  both.give(1, 1.5, mean_of(3));
  MassEffects out, later;
  both.view(1, 3, {kNear}, out);
  CHECK(out.gives.empty());  // has its giver left, or does it go on?
  CHECK(seen(both, 1, MemberState::left).inherits.empty());
  both.timer(1.5, later);
  REQUIRE(later.gives.size() == 1);
  CHECK(later.gives[0].mass.weight == 2);
  CHECK(later.gives[0].mean.vec().as<double>()[0] == Approx(4));
}

TEST_CASE("mass that cannot be is refused and counted, and no receipt is given for it") {
  MassHandOver heir(kShape);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* reason;
    PushSumMass mass;
    Payload mean;
    bool serves = true;
    MassHandOver::Giver giver = {2, 1};
  };
  const Case cases[] = {
      {"mass of a stranger", {1, 7, 1}, mean_of(3), true, {0, 1}},
      {"mass for a rank of another node", {1, 7, 1}, mean_of(3), false},
      {"mass of an impossible weight", {1, 7, -1}, mean_of(3)},
      {"mass of an impossible weight", {1, 7, 0}, mean_of(3)},
      {"mass of an impossible weight", {1, 7, nan}, mean_of(3)},
      {"mass of an impossible weight", {1, 7, 1e9}, mean_of(3)},
      {"mass of another type or size", {1, 7, 1}, mean_of(3, 5)},
      {"mass of another type or size", {1, 7, 1}, mean_of(3, 4, DType::f32)},
      {"mass of another type or size", {1, 7, 1}, {}},
      {"mass that is not finite", {1, 7, 1}, mean_of(nan)},
      {"mass of an earlier incarnation", {1, 7, 1}, mean_of(3), true, {2, 2}},
  };
  for (const Case& c : cases) {
    INFO(c.reason);
    const uint64_t before = heir.refused().count(c.reason) ? heir.refused().at(c.reason) : 0;
    CHECK(came(heir, c.mass, c.mean, c.serves, c.giver).receipts.empty());
    CHECK(heir.refused().at(c.reason) == before + 1);
  }
  CHECK(heir.kept() == 0);
}

TEST_CASE("one giver's mass is kept at a time, and that of sixteen givers at most") {
  MassHandOver heir(kShape);
  CHECK(came(heir, {1, 7, 1}, mean_of(3)).receipts.size() == 1);
  CHECK(came(heir, {2, 7, 1}, mean_of(3)).receipts.size() == 1);  // it goes on: the first is void
  CHECK(heir.kept() == 1);
  const auto give = [&](const std::string& node) {
    MassEffects out;
    heir.came(node, {1, 7, 1}, mean_of(3), true, {2, 1}, out);
    return out.receipts.size() == 1;
  };
  for (int k = 0; k < 100; ++k)
    give("giver" + std::to_string(k));
  CHECK(heir.kept() == 16);
  CHECK(heir.refused().at("mass of too many") == 85);
  seen(heir, 1, MemberState::dead, "giver3");  // they make room first
  CHECK(give("late"));
  CHECK_FALSE(give("later"));
}

TEST_CASE("an heir remembers 4,096 givers, and takes over of no more") {
  MassHandOver heir(kShape);
  const auto gives_and_leaves = [&](int k) {
    const std::string node = "giver" + std::to_string(k);
    MassEffects out;
    heir.came(node, {1, 7, 1}, mean_of(3), true, {2, 1}, out);
    return seen(heir, 1, MemberState::left, node).inherits.size();
  };
  for (int k = 0; k < 4096; ++k)
    REQUIRE(gives_and_leaves(k) == 1);
  CHECK(gives_and_leaves(4096) == 0);
  CHECK(heir.refused().at("mass of too many") == 1);
}
