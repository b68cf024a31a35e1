#include "actors/device/device_dock.hpp"

#include <new>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

DeviceDock::DeviceDock(std::shared_ptr<DeviceShare> device, size_t largest, size_t capacity,
                       SnapshotPool::Memory memory)
    : device_(std::move(device)), outgoing_(largest, DType::bytes, capacity, memory) {
  ferry_ = device_->make_dock_ferry(
      [this](const Fence& fence, std::function<void()> then) { await(fence, std::move(then)); });
}

void DeviceDock::await(const Fence& fence, std::function<void()> then) {
  if (device_->fences().query(fence) == Fate::ok) return then();
  device_->fences().when(
      fence, [self = shared_from_this(), then = std::move(then),
              expected = device_->silence().expect(SilenceWatch::Kind::pass)](Fate fate) mutable {
        if (fate == Fate::ok) self->to_owner_(std::move(then));
      });
}

void DeviceDock::leave(Payload there, Then then) {
  to_owner_([self = shared_from_this(), there = std::move(there), then = std::move(then)] {
    Payload here{self->outgoing_.take(), there.dtype, there.count, there.version};
    if (!here) return;
    const Vec into(here.lease.writable().data, there.count, there.dtype);
    self->ferry_->down(there.vec(), into, [there, here, then] { then(here); });
  });
}

// Given back by the owner, whichever thread the last lease ends on: until then passes of the one
// stream may read it. What has not landed when all ends keeps the dock no longer than others do.
Lease DeviceDock::take(size_t bytes) {
  try {
    void* const at = device_->workspace().take(bytes);
    return Lease::of_device(ConstVec(at, bytes, DType::bytes),
                            [me = weak_from_this(), at](const auto&) {
                              const auto self = me.lock();
                              if (!self) return;
                              self->to_owner_([self, at] { self->device_->workspace().give(at); });
                            });
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void DeviceDock::follow(Stream lane) {
  Fence passes;
  if (device_->fences().record(device_->rules(), passes) == Fate::ok)
    static_cast<void>(device_->fences().wait(lane, passes));  // lost: nothing is done any more
}

void DeviceDock::land(Payload here, Then then) {
  to_owner_([self = shared_from_this(), here = std::move(here), then = std::move(then)] {
    Payload there{self->take(here.vec().bytes()), here.dtype, here.count, here.version};
    if (!there) return;
    const Vec into(const_cast<void*>(there.lease.vec().data), here.count, here.dtype);
    self->ferry_->up(here.vec(), into, [here, there, then] { then(there); });
  });
}

}  // namespace grapevine
