// The cost of gossip at an absurd rate to the ranks of a late device on the virtual clock, where a
// gradient takes a second.
#include "tests/catch.hpp"
#include "tests/run/on_adversary.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr int kRanks = 4;
constexpr uint64_t kSteps = 100;  // of each rank

Settings work(double rate) {
  Settings s = at_work(kRanks, kSteps * kRanks, "ad_psgd", Share::pool);
  s.rate = rate;
  s.link.transfer_s = 0.01;
  s.objective.dim = 20;
  s.lr = {0.05, Schedule::constant, 0};
  return s;
}

double part_of(const Cost& cost, Part p) { return cost.parts[static_cast<size_t>(p)]; }

Cost cost_on_device(const Settings& s, RunHooks hooks = {}) {
  RunDevice device(1, RunDevice::Pace::late);
  hooks.make_worker = on_late(device);
  const auto ran = simulate_on(device, s, 1, std::move(hooks));
  REQUIRE(ran);
  const Cost cost = cost_of(ran->outcome.costs);
  CHECK(cost.steps >= kSteps * kRanks);
  return cost;
}

}  // namespace

TEST_CASE("gossip at fifty exchanges a step shows as exchanges and contention, not as efficiency") {
  const Cost rare = cost_on_device(work(0.01)), absurd = cost_on_device(work(50));
  const double later_s = absurd.seconds - rare.seconds;
  REQUIRE(later_s > 0.1 * rare.seconds);
  CHECK(absurd.efficiency() / rare.efficiency() ==
        Approx(rare.seconds / absurd.seconds).epsilon(0.1));
  const double shown = part_of(absurd, Part::exchanges) + part_of(absurd, Part::contention);
  INFO("later by " << later_s << " s, exchanges and contention " << shown << " s");
  CHECK(shown == Approx(later_s).epsilon(0.15));  // the rest: the device is late with own passes
}
