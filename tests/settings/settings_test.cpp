// Refusals before a run, beyond single values: settings that exclude each other.
#include "actors/settings/settings.hpp"

#include <cmath>

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

TEST_CASE("times, rates and bandwidths that no clock can count are refused in a line") {
  const double nan = std::nan("");
  const auto refused = [](double Settings::*what, double value) {
    Settings s;
    s.clock = Clock::simulated;
    s.*what = value;
    const Status status = check(s);
    INFO(value);
    if (!status) CHECK(status.error().message.find("accepted: ") != std::string::npos);
    return !status && status.error().exit_status() == 2;
  };
  for (const double value : {1e300, 1e-300, nan, kNever, -1.0}) {
    CHECK(refused(&Settings::rate, value));
    CHECK(refused(&Settings::until_s, value));
    CHECK(refused(&Settings::gradient_s, value));
    CHECK(refused(&Settings::sample_s, value));
  }
  for (const double value : {1.0, 1e-3, 1e3}) {
    CHECK_FALSE(refused(&Settings::rate, value));
    CHECK_FALSE(refused(&Settings::until_s, value));
  }
  CHECK_FALSE(refused(&Settings::until_s, 0));
  CHECK_FALSE(refused(&Settings::sample_s, 0));
  CHECK(refused(&Settings::rate, 0));
}

TEST_CASE("what no machine has is refused in a line: threads, memory, a clip that is no number") {
  const auto complaint = [](const Settings& s) {
    const Status status = check(s);
    return status ? std::string() : status.error().message;
  };
  Settings s;
  s.clock = Clock::wall;
  s.objective.objective = "quadratic";
  s.threads = 1024;
  CHECK(complaint(s).empty());
  s.threads = 1025;
  CHECK(complaint(s) == "threads is 1025, accepted: 0 (all) to 1024");
  s.threads = 1;
  s.ranks = 100000;
  s.objective.dim = 1 << 27;
  CHECK_THAT(
      complaint(s),
      Catch::StartsWith("dim is 134217728 with ranks 100000, whose vectors need 200000.0 GiB "
                        "at least, accepted: what fits into the "));
  s.local_ranks = 1;  // of a hundred thousand nodes
  CHECK(complaint(s).find("dim") == std::string::npos);
  s = {};
  s.objective.objective = "quadratic";
  for (const double value : {std::nan(""), -1.0, kNever}) {
    s.objective.clip = value;
    CHECK_THAT(complaint(s), Catch::StartsWith("clip is "));
  }
}
