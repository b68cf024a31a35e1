#include "actors/device/silence_watch.hpp"

#include "actors/compute/lane_gradient.hpp"
#include "tests/catch.hpp"
#include "tests/device/adversary.hpp"

using namespace grapevine;
using namespace grapevine::testing;
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

TEST_CASE("a gradient that finds no memory to begin with is none, and the first may take as long") {
  AdverseWorld world{1};
  Adversary device{world, "A"};
  DeviceSizes sizes;
  sizes.gradient_size = 25;
  sizes.gradients = sizes.askings = 1;
  sizes.exchange_bytes = 4096;
  const auto share = DeviceShare::make(device, sizes);
  REQUIRE(share);
  const auto copies = (*share)->make_pool(25, DType::f32, 2);
  const auto job = [&] {
    GradientJob made;
    made.x = copies->take((*share)->rules());
    return made;
  };
  LaneGradient first(job(), (*share)->lanes()[0]), second(job(), (*share)->lanes()[0]);
  REQUIRE(first.begin(**share));
  REQUIRE_FALSE(second.begin(**share));
  SilenceWatch& watch = (*share)->silence();
  CHECK_FALSE(watch.is_silent(0));
  CHECK_FALSE(watch.is_silent(300));
  CHECK(watch.is_silent(320));
}
