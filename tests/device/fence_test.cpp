// Fences and the pools of a device: what their headers promise.
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/device/adversary.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kSize = 16;

/// A device with two shared streams and a lane, and memory for `slots` slots of each kind.
struct Bench {
  AdverseWorld world{1};
  Adversary adversary{world, "A"};
  Device& device = adversary;
  Fences fences{device};
  Stream rules, out, lane;
  Block memory, pinned;

  explicit Bench(size_t slots = 2) {
    REQUIRE(fences.make_stream(Fences::Kind::shared, rules) == Fate::ok);
    REQUIRE(fences.make_stream(Fences::Kind::shared, out) == Fate::ok);
    REQUIRE(fences.make_stream(Fences::Kind::lane, lane) == Fate::ok);
    const size_t bytes = SnapshotPool::bytes_for(kSize, DType::f32, slots);
    REQUIRE(device.allocate(bytes, Block::Kind::device, memory) == Fate::ok);
    REQUIRE(device.allocate(bytes, Block::Kind::pinned, pinned) == Fate::ok);
  }
  /// Work on a stream that writes the slot, or reads it.
  Fence work(Stream stream, const Lease& lease, Access::Mode mode) {
    const Access access{lease.vec().data, lease.vec().bytes(), mode};
    const auto set = [mode](void*, void* const* at) {
      if (mode == Access::Mode::writes) std::fill_n(static_cast<float*>(at[0]), kSize, 1.0f);
    };
    Fence done;
    REQUIRE(device.launch(stream, {&access, 1}, set) == Fate::ok);
    REQUIRE(fences.record(stream, done) == Fate::ok);
    return done;
  }
  void check_clean() {
    REQUIRE(world.run());
    adversary.finish_all();
    CHECK(world.judge().findings() == std::set<std::string>());
  }
};

}  // namespace

TEST_CASE("an event goes back when the last copy of its fence goes, and is then recorded anew") {
  Bench t;
  Fence a, b;
  REQUIRE(t.fences.record(t.rules, a) == Fate::ok);
  const Fence copy = a;
  a = {};
  REQUIRE(t.fences.record(t.rules, b) == Fate::ok);
  CHECK(t.fences.events() == 2);  // the copy still stands for the first
  b = {};
  for (int k = 0; k < 5; ++k) {
    Fence again;
    REQUIRE(t.fences.record(t.out, again) == Fate::ok);
  }
  CHECK(t.fences.events() == 2);
  t.check_clean();
}

TEST_CASE("a fence that is awaited stays until it is told, though nobody else has it") {
  Bench t;
  int told = 0;
  Fence fence;
  REQUIRE(t.fences.record(t.rules, fence) == Fate::ok);
  t.fences.when(fence, [&](Fate fate) { told += fate == Fate::ok ? 1 : 100; });
  fence = {};
  for (int k = 0; k < 3; ++k) {
    Fence other;
    REQUIRE(t.fences.record(t.rules, other) == Fate::ok);
  }
  CHECK(t.fences.events() == 2);
  t.check_clean();
  CHECK(told == 1);
}

TEST_CASE("no fence has happened at once, and a stream does not wait for itself") {
  Bench t;
  CHECK(t.fences.query({}) == Fate::ok);
  CHECK(t.fences.wait(t.rules, {}) == Fate::ok);
  Fence own;
  REQUIRE(t.fences.record(t.rules, own) == Fate::ok);
  const uint64_t calls = t.adversary.calls;
  CHECK(t.fences.wait(t.rules, own) == Fate::ok);
  CHECK(t.adversary.calls == calls);
  CHECK(t.fences.query(own) == Fate::later);
  t.check_clean();
  CHECK(t.fences.query(own) == Fate::ok);
}

TEST_CASE("a shared stream that waits for a lane is our bug, a lane may wait for anybody") {
  Bench t;
  Fence of_lane, of_rules;
  REQUIRE(t.fences.record(t.lane, of_lane) == Fate::ok);
  REQUIRE(t.fences.record(t.rules, of_rules) == Fate::ok);
  CHECK(t.fences.wait(t.lane, of_rules) == Fate::ok);
  CHECK(t.fences.wait(t.out, of_rules) == Fate::ok);
  CHECK(last_words([&] { static_cast<void>(t.fences.wait(t.rules, of_lane)); }) != "");
}

TEST_CASE("slots of a block are handed on before they are written, and back before they are read") {
  Bench t(1);
  SnapshotPool pool(t.fences, t.memory, kSize, DType::f32, 1);
  for (int round = 0; round < 5; ++round) {
    Lease lease = pool.take(t.rules);
    REQUIRE(lease);
    CHECK(lease.on_device());
    CHECK_FALSE(pool.take(t.rules));
    lease.set_ready(t.work(t.rules, lease, Access::Mode::writes));
    REQUIRE(t.fences.wait(t.out, lease.ready()) == Fate::ok);
    lease.read_by(t.work(t.out, lease, Access::Mode::reads));
    lease = {};
    CHECK(pool.in_use() == 0);
  }
  t.check_clean();
  CHECK(t.fences.events() <= 4);
}

TEST_CASE("a reader that is not marked is overrun, and found") {
  Bench t(1);
  SnapshotPool pool(t.fences, t.memory, kSize, DType::f32, 1);
  for (int round = 0; round < 2; ++round) {
    Lease lease = pool.take(t.rules);
    lease.set_ready(t.work(t.rules, lease, Access::Mode::writes));
    REQUIRE(t.fences.wait(t.out, lease.ready()) == Fate::ok);
    t.work(t.out, lease, Access::Mode::reads);
  }
  REQUIRE(t.world.run());
  CHECK(t.world.judge().found("race"));
}

TEST_CASE("a slot that was taken and dropped unwritten is still written behind its readers") {
  Bench t(1);
  SnapshotPool pool(t.fences, t.memory, kSize, DType::f32, 1);
  {
    Lease lease = pool.take(t.rules);
    lease.set_ready(t.work(t.rules, lease, Access::Mode::writes));
    REQUIRE(t.fences.wait(t.out, lease.ready()) == Fate::ok);
    lease.read_by(t.work(t.out, lease, Access::Mode::reads));
  }
  CHECK(pool.take(t.rules));  // whose stream waits, and writes nothing
  Lease lease = pool.take(t.lane);
  t.work(t.lane, lease, Access::Mode::writes);
  t.check_clean();
}

TEST_CASE("the host gets a pinned slot that no work reads any more, and never waits for one") {
  Bench t(2);
  SnapshotPool pool(t.fences, t.pinned, kSize, DType::f32, 2);
  const auto use = [&] {
    Lease lease = pool.take_host();
    if (!lease) return false;
    CHECK_FALSE(lease.on_device());
    std::fill_n(lease.writable().as<float>(), kSize, 2.0f);
    t.device.touch({lease.vec().data, lease.vec().bytes(), Access::Mode::writes});
    lease.read_by(t.work(t.rules, lease, Access::Mode::reads));
    return true;
  };
  CHECK(use());
  CHECK(use());
  CHECK(pool.in_use() == 0);
  CHECK_FALSE(use());
  t.check_clean();
  CHECK(use());
  t.check_clean();
}

TEST_CASE("the host reads a pinned slot only when its fence has been seen") {
  Bench t(1);
  SnapshotPool pool(t.fences, t.pinned, kSize, DType::f32, 1);
  Lease lease = pool.take(t.out);
  const Fence written = t.work(t.out, lease, Access::Mode::writes);
  lease.set_ready(written);
  CHECK(last_words([&] { static_cast<void>(lease.vec()); }) != "");
  t.check_clean();
  REQUIRE(t.fences.query(written) == Fate::ok);
  lease.set_seen();
  t.device.touch({lease.vec().data, lease.vec().bytes(), Access::Mode::reads});
  CHECK(lease.vec().as<float>()[kSize - 1] == 1.0f);
  t.check_clean();
}

TEST_CASE("a lost device has no slots, and leases may outlive it and their pool") {
  Lease kept;
  {
    Bench t(2);
    SnapshotPool pool(t.fences, t.memory, kSize, DType::f32, 2);
    kept = pool.take(t.rules);
    kept.set_ready(t.work(t.rules, kept, Access::Mode::writes));
    kept.read_by(t.work(t.out, kept, Access::Mode::reads));
    Lease other = pool.take(t.rules);
    other.read_by(t.work(t.out, other, Access::Mode::updates));
    other = {};
    {
      Fence spare;
      REQUIRE(t.fences.record(t.rules, spare) == Fate::ok);
    }
    t.adversary.fail_call = t.adversary.calls + 1;
    CHECK_FALSE(pool.take(t.rules));
    CHECK(pool.in_use() == 1);
    Fence none;
    CHECK(t.fences.record(t.rules, none) == Fate::lost);
    CHECK(none == nullptr);
  }
  CHECK(kept.on_device());
}
