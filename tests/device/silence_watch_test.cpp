#include "actors/device/silence_watch.hpp"

#include "tests/catch.hpp"

using namespace grapevine;
using Kind = SilenceWatch::Kind;

TEST_CASE(
    "a device is silent when a pass has not come after ten seconds and ten times the longest") {
  SilenceWatch watch;
  CHECK_FALSE(watch.expects());
  auto first = watch.expect(Kind::pass);
  CHECK(watch.expects());
  CHECK_FALSE(watch.is_silent(100));
  CHECK_FALSE(watch.is_silent(109.9));
  CHECK(watch.is_silent(110.1));
  CHECK_FALSE(watch.is_silent(102));
  first.reset();
  CHECK_FALSE(watch.expects());
  CHECK_FALSE(watch.is_silent(102));  // it took two
  const auto second = watch.expect(Kind::pass);
  CHECK_FALSE(watch.is_silent(200));
  CHECK_FALSE(watch.is_silent(229.9));
  CHECK(watch.is_silent(230.1));
}

TEST_CASE("the first gradient may take long, and others what such ones have taken") {
  SilenceWatch watch;
  auto first = watch.expect(Kind::gradient);
  CHECK_FALSE(watch.is_silent(0));
  CHECK_FALSE(watch.is_silent(309.9));
  CHECK(watch.is_silent(310.1));
  first.reset();
  auto never_seen = watch.expect(Kind::gradient);
  CHECK_FALSE(watch.is_silent(310.2));
  never_seen.reset();
  const auto third = watch.expect(Kind::gradient);
  CHECK_FALSE(watch.is_silent(400));
  CHECK_FALSE(watch.is_silent(3000));  // the first took 310
  CHECK(watch.is_silent(3600));
}

TEST_CASE("what comes is forgotten, whoever asks and when") {
  SilenceWatch watch;
  for (int k = 0; k < 1000; ++k)
    static_cast<void>(watch.expect(Kind::gradient));
  CHECK_FALSE(watch.expects());
  const auto last = watch.expect(Kind::gradient);
  CHECK_FALSE(watch.is_silent(0));
  CHECK_FALSE(watch.is_silent(9.9));
  CHECK(watch.is_silent(10.1));  // gradients take no time here
}
