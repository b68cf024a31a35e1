// The learning rate over a run: figures of the schedules as they are published, no formula of ours.
#include "actors/settings/settings.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("a learning rate rises from 0 over the warm-up, whatever comes after it") {
  for (const Schedule schedule : {Schedule::constant, Schedule::step, Schedule::cosine}) {
    const LearningRate lr{0.4, schedule, 0.2};
    CHECK(lr.at(0) == 0);
    CHECK(lr.at(0.05) == Approx(0.1));
    CHECK(lr.at(0.15) == Approx(0.3));
    CHECK(lr.at(0.2) == Approx(0.4));
  }
  CHECK(LearningRate{0.4, Schedule::constant, 1}.at(0.75) == Approx(0.3));
  CHECK(LearningRate{0.4, Schedule::cosine, 1}.at(0.75) == Approx(0.3));
}

TEST_CASE("a learning rate in steps is a tenth from 1/2 and a hundredth from 3/4") {
  const LearningRate lr{2, Schedule::step, 0};
  CHECK(lr.at(0) == 2);
  CHECK(lr.at(0.499) == 2);
  CHECK(lr.at(0.5) == Approx(0.2));
  CHECK(lr.at(0.749) == Approx(0.2));
  CHECK(lr.at(0.75) == Approx(0.02));
  CHECK(lr.at(1) == Approx(0.02));
}

TEST_CASE(
    "a learning rate along a cosine begins at the peak, is half of it half-way and ends at 0") {
  const LearningRate lr{2, Schedule::cosine, 0};
  CHECK(lr.at(0) == Approx(2));
  CHECK(lr.at(0.25) == Approx(1.7071067811865475));
  CHECK(lr.at(1.0 / 3) == Approx(1.5));
  CHECK(lr.at(0.5) == Approx(1));
  CHECK(lr.at(0.75) == Approx(0.2928932188134524));
  CHECK(lr.at(1) == Approx(0).margin(1e-15));
  const LearningRate later{2, Schedule::cosine, 0.2};  // over what the warm-up leaves
  CHECK(later.at(0.4) == Approx(1.7071067811865475));
  CHECK(later.at(0.6) == Approx(1));
}

TEST_CASE("a learning rate that is constant stays") {
  const LearningRate lr{2, Schedule::constant, 0};
  for (const double done : {0.0, 0.3, 0.5, 0.9, 1.0})
    CHECK(lr.at(done) == 2);
}
