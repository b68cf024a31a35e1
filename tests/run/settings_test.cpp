// What is refused before a run, beyond single values: settings that do not go together.
#include "actors/run/settings.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE(
    "gradients of a Poisson process are refused where a round begins when the last one ends") {
  Settings s;
  s.clock = Clock::simulated;
  s.pacing = Pacing::poisson;
  CHECK(check(s));
  for (const char* method : {"d_psgd", "all_reduce", "sgp", "gradient_tracking"}) {
    s.method = method;
    const Status refused = check(s);
    INFO(method);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().exit_status() == 2);
    CHECK_THAT(refused.error().message, Catch::StartsWith("pacing is poisson, method ") &&
                                            Catch::Contains("accepts: greedy"));
    s.pacing = Pacing::greedy;
    CHECK(check(s));
    s.pacing = Pacing::poisson;
  }
}
