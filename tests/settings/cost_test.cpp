// The accounts of a rank's time, and their sums.
#include <cmath>

#include "actors/settings/rank_ledger.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

double part_of(const Cost& cost, Part p) { return cost.parts[static_cast<size_t>(p)]; }
double part_of(const RankCost& cost, Part p) { return cost.seconds[static_cast<size_t>(p)]; }

double sum_of(const RankCost& cost) {
  double sum = 0;
  for (const double s : cost.seconds)
    sum += s;
  for (const LostTime& lost : cost.lost)
    sum += lost.seconds;
  return sum;
}

/// Steps of one second each from `at` on, each followed by a gap.
double take_steps(RankLedger& ledger, double at, int count, double gap = 0) {
  for (int k = 0; k < count; ++k) {
    ledger.compute(at);
    ledger.computed(at += 1);
    ledger.applied(at += gap, 0, 0, 0);
  }
  return at;
}

}  // namespace

TEST_CASE("each second of a rank is charged once, whatever happens to it") {
  RankLedger ledger;
  ledger.begin(3, false);
  double at = take_steps(ledger, 2, 20, 0.25);  // 2 s of start, 20 of work, 5 of exchanges
  CHECK(at == Approx(27));
  ledger.compute(at);
  ledger.stand(Lost::pause, 28, 27.5);  // the step was there when it stood still
  ledger.back(33);
  ledger.computed(33);
  ledger.applied(34, 0.2, 33.3, 33.7);  // 0.2 of its own, 0.4 for a checkpoint
  ledger.compute(34);
  ledger.lose(Lost::kill, 34.5);
  ledger.compute(35);  // the last words of the worker that was killed
  ledger.computed(36);
  ledger.begin(3, false);
  ledger.compute(40);
  ledger.computed(44);  // a slow one
  ledger.wait(44);
  ledger.compute(46);
  ledger.end(47);
  ledger.computed(48);
  ledger.save(50);
  const RankCost cost = ledger.cost(53);
  CHECK(cost.rank == 3);
  CHECK(cost.steps == 22);
  CHECK(cost.fastest_s == Approx(1));
  CHECK(sum_of(cost) == Approx(53));
  CHECK(part_of(cost, Part::work) == Approx(22));
  CHECK(part_of(cost, Part::contention) == Approx(3.2));
  CHECK(part_of(cost, Part::exchanges) == Approx(5.4));
  CHECK(part_of(cost, Part::saving) == Approx(3.4));
  CHECK(part_of(cost, Part::waiting) == Approx(2));
  CHECK(part_of(cost, Part::start) == Approx(2));
  CHECK(part_of(cost, Part::end) == Approx(4));
  CHECK(cost.longest_s == Approx(1.25));  // no fault lies between two such steps
  REQUIRE(cost.lost.size() == 2);
  CHECK(cost.lost[0].what == Lost::pause);
  CHECK(cost.lost[0].at_s == Approx(27.5));
  CHECK(cost.lost[0].until_s == Approx(33));
  CHECK(cost.lost[0].seconds == Approx(5));
  CHECK(cost.lost[1].what == Lost::kill);
  CHECK(cost.lost[1].seconds == Approx(6));  // with half a step that nobody has
}

TEST_CASE("time in which the process stood still is no step, whoever noticed it first") {
  for (const bool step_first : {false, true}) {
    RankLedger ledger;
    ledger.begin(0, false);
    const double at = take_steps(ledger, 0, 20);
    ledger.compute(at);
    if (step_first) {
      ledger.computed(25.9);
      ledger.applied(26, 0, 0, 0);
      ledger.compute(26);
    }
    ledger.stood_still(20.4, 25.5);
    if (!step_first) {
      ledger.computed(25.9);
      ledger.applied(26, 0, 0, 0);
    }
    ledger.wait(26);
    ledger.stood_still(26.2, 26.4);  // an actor that was late, no more
    ledger.wait(27);
    const RankCost cost = ledger.cost(27);
    INFO(step_first);
    CHECK(sum_of(cost) == Approx(27));
    REQUIRE(cost.lost.size() == 1);
    CHECK(cost.lost[0].what == Lost::silence);
    CHECK(cost.lost[0].seconds == Approx(5.1));
    CHECK(cost.fastest_s == Approx(1).epsilon(0.1));  // the last step took 0.8
    CHECK(part_of(cost, Part::contention) < 2.1);
  }
}

TEST_CASE("a second of a rank is worth the steps that it would have taken") {
  RankLedger fast, slow;
  fast.begin(0, false);
  slow.begin(1, false);
  fast.wait(take_steps(fast, 0, 6));  // the other 2 s it waits
  slow.compute(0);
  slow.computed(4);
  slow.compute(4);
  slow.computed(8);
  const Cost cost = cost_of({fast.cost(8), slow.cost(8)});
  CHECK(cost.steps == 8);
  CHECK(cost.speed == Approx(1.25));
  CHECK(cost.seconds == Approx(8));
  CHECK(part_of(cost, Part::work) == Approx(8 / 1.25));
  CHECK(part_of(cost, Part::waiting) == Approx(2 / 1.25));
  CHECK(cost.efficiency() == Approx(0.8));
}

TEST_CASE("a rank that is gone is told, and does not count against those who go on") {
  RankLedger whole, killed, never;
  for (RankLedger* ledger : {&whole, &killed, &never})
    ledger->begin(0, false);
  take_steps(whole, 0, 30);
  killed.lose(Lost::kill, take_steps(killed, 0, 10));
  never.lose(Lost::kill, 0);
  const Cost cost = cost_of({whole.cost(30), killed.cost(30), never.cost(30)});
  CHECK(cost.efficiency() == Approx(1));
  CHECK(cost.faults_s == Approx(50.0 / 3));
  REQUIRE(cost.lost.size() == 2);
  CHECK(cost.lost[0].steps == Approx(30));  // as many as the others
  CHECK(cost.lost[1].at_s == Approx(10));
  CHECK(cost.lost[1].steps == Approx(20));
  CHECK(part_of(cost, Part::work) + cost.faults_s == Approx(30));
}

TEST_CASE("processes are added up by the speed of their ranks") {
  Cost a, b;
  a.seconds = b.seconds = 10;
  a.speed = 3;
  b.speed = 1;
  a.steps = 30;
  b.steps = 5;
  a.parts[static_cast<size_t>(Part::work)] = 10;
  b.parts[static_cast<size_t>(Part::work)] = 5;
  b.parts[static_cast<size_t>(Part::exchanges)] = 5;
  const Cost all = sum_of({a, b});
  CHECK(all.seconds == Approx(10));
  CHECK(part_of(all, Part::work) == Approx(8.75));
  CHECK(part_of(all, Part::exchanges) == Approx(1.25));
  CHECK(all.efficiency() == Approx(0.875));
  CHECK(sum_of(std::vector<Cost>{}).seconds == 0);
  CHECK(std::isnan(Cost{}.efficiency()));
}

TEST_CASE("the fastest tenth of steps is known in bounded memory") {
  StepDurations steps;
  CHECK(steps.fastest_tenth() == 0);
  for (int k = 0; k < 90000; ++k)
    steps.add(1 + k % 10, 1);
  for (int k = 0; k < 10000; ++k)
    steps.add(0.5 + 1e-5 * k, 1);  // 0.5 to 0.6
  CHECK(steps.fastest_tenth() == Approx(0.55).epsilon(0.001));
  steps.add(0, 1);
  steps.add(1e300, 1);
  CHECK(std::isfinite(steps.fastest_tenth()));
  StepDurations few;
  few.add(6, 2);  // one report of two steps
  few.add(2, 1);
  CHECK(few.fastest_tenth() == Approx(2));
}

TEST_CASE("of many losses of a kind the first few are told by themselves, and all are summed") {
  RankLedger ledger;
  ledger.begin(0, false);
  for (int k = 0; k < 1000; ++k) {
    ledger.compute(2 * k);
    ledger.computed(2 * k);
    ledger.stand(Lost::pause, 2 * k, 2 * k);
    ledger.back(2 * k + 1);
  }
  const RankCost cost = ledger.cost(2000);
  CHECK(cost.lost.size() == 8);
  CHECK(cost.lost.back().times == 993);
  double seconds = 0;
  for (const LostTime& lost : cost.lost)
    seconds += lost.seconds;
  CHECK(seconds == Approx(1000));
}
