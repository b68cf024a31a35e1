// Push-sum mass changes hands once, whatever is lost or repeated on its way.
#include <limits>

#include "actors/cluster/mass_hand_over.hpp"
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
                 bool serves = true, uint32_t ranks = 2) {
  MassEffects out;
  heir.came("giver", mass, mean, serves, ranks, out);
  return out;
}

}  // namespace

TEST_CASE("the giver sends again until the receipt is there") {
  MassHandOver giver(kShape);
  MassEffects out;
  giver.give(1, "heir", 7, 1.5, mean_of(3), out);
  REQUIRE(out.gives.size() == 1);
  CHECK(out.gives[0].mass.weight == 1.5);
  CHECK(out.timer_at == 1.5);
  MassEffects again;
  giver.timer(1.5, again);
  REQUIRE(again.gives.size() == 1);
  CHECK(again.gives[0].mass == out.gives[0].mass);
  MassEffects wrong, right;
  giver.receipt("other", out.gives[0].mass.hand_over, wrong);
  giver.receipt("heir", out.gives[0].mass.hand_over + 1, wrong);
  CHECK_FALSE(wrong.arrived);
  giver.receipt("heir", out.gives[0].mass.hand_over, right);
  CHECK(right.arrived);
  CHECK_FALSE(giver.waits());
  MassEffects later;
  giver.timer(9, later);
  giver.receipt("heir", out.gives[0].mass.hand_over, later);
  CHECK((later.gives.empty() && !later.arrived));
}

TEST_CASE("the heir says each time that it has it, and inherits once, when the giver has gone") {
  MassHandOver heir(kShape);
  const PushSumMass mass{1, 7, 1.5};
  CHECK(came(heir, mass, mean_of(3)).receipts.size() == 1);
  const MassEffects repeated = came(heir, mass, mean_of(3));
  CHECK((repeated.receipts.size() == 1 && repeated.inherits.empty()));
  MassEffects out;
  heir.gone("somebody", out);
  CHECK(out.inherits.empty());
  heir.gone("giver", out);
  REQUIRE(out.inherits.size() == 1);
  CHECK(out.inherits[0].weight == 1.5);
  CHECK(out.inherits[0].rank == 7);
  MassEffects again;
  heir.gone("giver", again);
  CHECK(again.inherits.empty());
}

TEST_CASE("mass that cannot be is refused and counted, and no receipt is given for it") {
  MassHandOver heir(kShape);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* reason;
    PushSumMass mass;
    Payload mean;
    bool serves = true;
    uint32_t ranks = 2;
  };
  const Case cases[] = {
      {"mass of a stranger", {1, 7, 1}, mean_of(3), true, 0},
      {"mass for a rank of another node", {1, 7, 1}, mean_of(3), false},
      {"mass of an impossible weight", {1, 7, -1}, mean_of(3)},
      {"mass of an impossible weight", {1, 7, 0}, mean_of(3)},
      {"mass of an impossible weight", {1, 7, nan}, mean_of(3)},
      {"mass of an impossible weight", {1, 7, 1e9}, mean_of(3)},
      {"mass of another type or size", {1, 7, 1}, mean_of(3, 5)},
      {"mass of another type or size", {1, 7, 1}, mean_of(3, 4, DType::f32)},
      {"mass of another type or size", {1, 7, 1}, {}},
      {"mass that is not finite", {1, 7, 1}, mean_of(nan)},
  };
  for (const Case& c : cases) {
    INFO(c.reason);
    const uint64_t before = heir.refused().count(c.reason) ? heir.refused().at(c.reason) : 0;
    CHECK(came(heir, c.mass, c.mean, c.serves, c.ranks).receipts.empty());
    CHECK(heir.refused().at(c.reason) == before + 1);
  }
  CHECK(heir.kept() == 0);
}

TEST_CASE("one giver's mass is kept at a time, and that of sixteen givers at most") {
  MassHandOver heir(kShape);
  CHECK(came(heir, {1, 7, 1}, mean_of(3)).receipts.size() == 1);
  CHECK(came(heir, {2, 7, 1}, mean_of(3)).receipts.empty());
  for (int k = 0; k < 100; ++k) {
    MassEffects out;
    heir.came("giver" + std::to_string(k), {1, 7, 1}, mean_of(3), true, 2, out);
  }
  CHECK(heir.kept() == 16);
  CHECK(heir.refused().at("mass of too many") == 86);
}
