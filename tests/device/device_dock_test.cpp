// Payloads from a device to another process and back: exactly the sent bytes are delivered, once
// they are complete, or none.
#include "actors/device/device_dock.hpp"

#include <algorithm>

#include "kernels/memory/shared_memory.hpp"
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
  explicit Owner(uint64_t seed, bool pins = true) : world(seed) {
    device.pins = pins;
    DeviceSizes sizes;
    sizes.exchange_bytes = 16 << 10;
    sizes.gradient_size = kCount;
    sizes.gradients = sizes.askings = 1;
    sizes.dock_piece_bytes = 40;
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

/// As a link leaves it: in a slot of the host's memory.
Payload arrived(SnapshotPool& arrivals, float value, size_t count = kCount) {
  Payload payload{arrivals.take()};
  REQUIRE(payload);
  std::fill_n(payload.writable(DType::f32, count).as<float>(), count, value);
  return payload;
}

std::vector<float> values_on_device(Owner& owner, const Payload& there) {
  std::vector<float> values;
  owner.dock->leave(there, [&](const Payload& p) { values = values_of(p); });
  owner.go_on();
  return values;
}

}  // namespace

TEST_CASE("what leaves a device is there when it is handed on, and comes back the same") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Owner owner(seed, seed % 2 == 0);
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
    const float first = values_of(left[0])[0];  // either may be

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
    CHECK(values_of(again) == std::vector<float>(kCount, 1 + 2 * first));
    CHECK(owner.share->workspace().in_use() == before);
    CHECK(owner.world.judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("what leaves is one copy where the memory that it goes to can be pinned") {
  uint64_t works[2];
  for (const bool pins : {false, true}) {
    Owner owner(1, pins);
    Payload payload = owner.filled_with(1);
    const uint64_t before = owner.device.works;
    size_t left = 0;
    owner.dock->leave(std::move(payload), [&](const Payload& p) {
      CHECK(p.lease.is_pinned() == pins);
      ++left;
    });
    owner.go_on();
    CHECK(left == 1);
    works[pins] = owner.device.works - before;
  }
  constexpr uint64_t kPieces = 3;  // of 40 bytes
  CHECK(works[true] == 1);
  CHECK(works[false] == kPieces);
}

TEST_CASE("what arrives is one copy where the memory that it is in can be pinned") {
  for (const bool pins : {true, false}) {
    Owner owner(1, pins);
    SnapshotPool arrivals(kCount * sizeof(float), DType::bytes, 1);
    constexpr uint64_t kPieces = 3;  // of 40 bytes
    for (const float value : {1.f, 2.f, 3.f}) {
      Payload there;
      const uint64_t before = owner.device.works;
      owner.dock->land(arrived(arrivals, value), [&](Payload p) { there = std::move(p); });
      CHECK(arrivals.in_use() == 1);
      owner.go_on();
      CHECK(owner.device.works - before == (pins ? 1 : kPieces));
      CHECK(arrivals.in_use() == 0);
      REQUIRE(there);
      CHECK(values_on_device(owner, there) == std::vector<float>(kCount, value));
    }
    CHECK(owner.world.judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("the memory of what arrives is free for the next when the copy is complete") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Owner owner(seed, seed % 4 != 0);
    SnapshotPool arrivals(kCount * sizeof(float), DType::bytes, 1);
    std::vector<Payload> there;
    for (const float value : {1.f, 2.f, 3.f}) {
      while (arrivals.in_use() > 0)
        REQUIRE(owner.tasks.step());
      owner.dock->land(arrived(arrivals, value), [&](Payload p) { there.push_back(std::move(p)); });
    }
    owner.go_on();
    REQUIRE(there.size() == 3);
    for (size_t k = 0; k < 3; ++k)
      CHECK(values_on_device(owner, there[k]) ==
            std::vector<float>(kCount, static_cast<float>(k + 1)));
    CHECK(owner.world.judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("what arrives in another process's memory is copied from there, and then released") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Owner owner(seed, seed % 4 != 0);
    constexpr size_t kBytes = kCount * sizeof(float);
    const auto theirs = SharedMemory::make(2 * kBytes);
    REQUIRE(theirs != nullptr);
    auto mapped = *SharedMemory::map(theirs->fd(), 2 * kBytes);
    const size_t own = owner.device.pinned_bytes();
    const uint64_t before = owner.device.works;
    std::vector<Payload> there;
    size_t released = 0;
    for (const float value : {1.f, 2.f, 3.f}) {
      while (static_cast<float>(released + 1) < value)
        REQUIRE(owner.tasks.step());
      std::fill_n(static_cast<float*>(theirs->data()), kCount, value);
      owner.dock->land({Lease::of(mapped, kBytes, [&] { ++released; }), DType::f32, kCount},
                       [&](Payload p) { there.push_back(std::move(p)); });
    }
    owner.go_on();
    CHECK(released == 3);
    CHECK(owner.device.works - before == 3 * (owner.device.pins ? 1 : 3));
    CHECK(owner.device.pinned_bytes() == own + (owner.device.pins ? 2 * kBytes : 0));
    REQUIRE(there.size() == 3);
    for (size_t k = 0; k < 3; ++k)
      CHECK(values_on_device(owner, there[k]) ==
            std::vector<float>(kCount, static_cast<float>(k + 1)));
    const size_t pinned = owner.device.pinned_bytes();
    mapped = nullptr;  // and so unmapped
    CHECK(owner.device.pinned_bytes() == pinned - (owner.device.pins ? 2 * kBytes : 0));
    CHECK(owner.world.judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("memory of what arrives is pinned as far as it is used, and once for payloads alike") {
  Owner owner(1);
  std::vector<size_t> pinned;
  SnapshotPool arrivals(kCount * sizeof(float), DType::bytes, 1);
  const auto land = [&](size_t count) {
    owner.dock->land(arrived(arrivals, 1, count), [](const Payload&) {});
    owner.go_on();
    pinned.push_back(owner.device.pinned_bytes());
  };
  const size_t own = owner.device.pinned_bytes();
  for (const size_t count : {size_t{5}, size_t{5}, size_t{6}, size_t{4}, kCount})
    land(count);
  for (size_t& bytes : pinned)
    bytes -= own;
  CHECK(pinned == std::vector<size_t>{20, 20, 40, 40, 100});
  CHECK(owner.world.judge().findings() == std::set<std::string>());
}

TEST_CASE("another thread copies what the device cannot, and the owner goes on when it has") {
  Owner owner(1, false);
  std::vector<std::function<void()>> elsewhere;
  owner.dock->copy_by([&](std::function<void()> task) { elsewhere.push_back(std::move(task)); });
  const auto let_go = [&] {
    while (!elsewhere.empty()) {
      for (const auto& task : std::exchange(elsewhere, {}))
        task();
      owner.go_on();
    }
  };
  Payload here, there;
  owner.dock->leave(owner.filled_with(3), [&](Payload p) { here = std::move(p); });
  owner.go_on();
  CHECK_FALSE(here);
  CHECK_FALSE(elsewhere.empty());
  let_go();
  REQUIRE(here);
  CHECK(values_of(here) == std::vector<float>(kCount, 3));
  owner.dock->land(std::move(here), [&](Payload p) { there = std::move(p); });
  owner.go_on();
  CHECK_FALSE(there);
  let_go();
  REQUIRE(there);
  Payload again;
  owner.dock->leave(std::move(there), [&](Payload p) { again = std::move(p); });
  owner.go_on();
  let_go();
  CHECK(values_of(again) == std::vector<float>(kCount, 3));
  CHECK(owner.world.judge().findings() == std::set<std::string>());
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
