// Makes a test the owner of the devices of one world: a queue of tasks, and payloads.
#pragma once
#include <deque>
#include <functional>

#include "actors/device/device_share.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/device/adverse_world.hpp"

namespace grapevine::testing {

class OwnerTasks {
 public:
  explicit OwnerTasks(AdverseWorld& world) : world_(world) {}
  void later(std::function<void()> task) { waiting_.push_back(std::move(task)); }
  /// Until nothing waits and no device works.
  void go_on() {
    while (step()) {
    }
  }
  /// The next thing that is to happen; false: there is none.
  bool step() {
    if (waiting_.empty()) return world_.step();
    const auto task = std::move(waiting_.front());
    waiting_.pop_front();
    task();
    return true;
  }

 private:
  AdverseWorld& world_;
  std::deque<std::function<void()>> waiting_;
};

/// Of so many floats; empty: the pool is.
inline Payload payload_of(DeviceShare& share, SnapshotPool& pool, size_t count, double value) {
  Payload payload{pool.take(share.rules())};
  if (payload) fill(share.execution(), value, payload.writable(DType::f32, count));
  return payload;
}

}  // namespace grapevine::testing
