// What leaves a device for another process, and what arrives: the very bytes, handed on when they
// are there, or not at all.
#include "actors/device/device_dock.hpp"

#include "kernels/passes/ops.hpp"
#include "tests/catch.hpp"
#include "tests/device/adversary.hpp"
#include "tests/device/owner_tasks.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kCount = 25, kLeaving = 2;  // floats; of several pieces

/// The owner of a device, whose tasks wait in a queue.
struct Owner {
  explicit Owner(uint64_t seed) : world(seed) {
    DeviceSizes sizes;
    sizes.exchange_bytes = 16 << 10;
    sizes.gradient_size = kCount;
    sizes.gradients = sizes.askings = 1;
    sizes.piece_bytes = 40;
    share = *DeviceShare::make(device, sizes);
    dock = std::make_shared<DeviceDock>(share, kCount * sizeof(float), kLeaving,
                                        SnapshotPool::Memory::own);
    dock->serve([this](std::function<void()> task) { tasks.later(std::move(task)); });
    pool = share->make_pool(kCount, DType::f32, 4);
  }

  void go_on() { tasks.go_on(); }
  Payload filled_with(double value) {
    Payload payload = payload_of(*share, *pool, kCount, value);
    payload.version = 7;
    return payload;
  }

  AdverseWorld world;
  Adversary device{world, "A"};
  OwnerTasks tasks{world};
  std::shared_ptr<DeviceShare> share;
  std::shared_ptr<DeviceDock> dock;
  std::unique_ptr<SnapshotPool> pool;
};

std::vector<float> values_of(const Payload& payload) {
  const float* const first = payload.vec().as<float>();
  return {first, first + payload.count};
}

}  // namespace

TEST_CASE("what leaves a device is there when it is handed on, and comes back the same") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Owner owner(seed);
    std::vector<Payload> left;
    for (const float value : {1.5f, 2.5f})
      owner.dock->leave(owner.filled_with(value), [&left, value](Payload p) {
        CHECK_FALSE(p.lease.on_device());
        CHECK(p.version == 7u);
        CHECK(values_of(p) == std::vector<float>(kCount, value));
        left.push_back(std::move(p));
      });
    owner.go_on();
    REQUIRE(left.size() == 2);

    const size_t before = owner.share->workspace().in_use();
    Payload there;
    owner.dock->land(std::move(left[0]), [&](Payload p) { there = std::move(p); });
    owner.go_on();
    REQUIRE(there);
    CHECK(there.lease.on_device());
    CHECK(there.version == 7u);
    Payload sum = owner.filled_with(1);
    axpy(owner.share->execution(), 2, there.vec(),
         Vec(const_cast<void*>(sum.lease.vec().data), kCount, DType::f32));
    Payload again;
    owner.dock->leave(std::move(sum), [&](Payload p) { again = std::move(p); });
    there = {};
    owner.go_on();
    REQUIRE(again);
    CHECK(values_of(again) == std::vector<float>(kCount, 4));
    CHECK(owner.share->workspace().in_use() == before);
    CHECK(owner.world.judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("a payload for which no memory is left is dropped, and the next one goes") {
  Owner owner(1);
  std::vector<Payload> left;
  const auto leave = [&] {
    owner.dock->leave(owner.filled_with(1), [&](Payload p) { left.push_back(std::move(p)); });
    owner.go_on();
  };
  for (size_t k = 0; k < kLeaving + 1; ++k)
    leave();
  CHECK(left.size() == kLeaving);
  left.clear();
  leave();
  CHECK(left.size() == 1);

  const Buffer host(2 * owner.share->workspace().in_use() + (32 << 10), DType::bytes);
  bool landed = false;
  Payload large{Lease::of(host, [] {}), DType::bytes, host.size()};
  owner.dock->land(std::move(large), [&](Payload) { landed = true; });
  owner.go_on();
  CHECK_FALSE(landed);
  CHECK(owner.world.judge().findings() == std::set<std::string>());
}
