#include "actors/device/device_dock.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

namespace {

Pinner pinner_of(const std::shared_ptr<DeviceShare>& device) {
  return {[device](const Access& memory) { return device->device().pin(memory) == Fate::ok; },
          [device](void* data) { device->device().unpin(data); }};
}

}  // namespace

DeviceDock::DeviceDock(std::shared_ptr<DeviceShare> device, size_t largest, size_t capacity,
                       SnapshotPool::Memory memory)
    : device_(std::move(device)),
      pinner_(pinner_of(device_)),
      outgoing_(largest, DType::bytes, capacity, memory, pinner_) {
  ferry_ = device_->make_dock_ferry(
      [this](const Fence& fence, std::function<void()> then) { await(fence, std::move(then)); },
      [this](void* to, const void* from, size_t bytes, std::function<void()> then) {
        copy_here(to, from, bytes, std::move(then));
      });
}

void DeviceDock::copy_here(void* to, const void* from, size_t bytes, std::function<void()> then) {
  if (!elsewhere_) {
    std::memcpy(to, from, bytes);
    return then();
  }
  elsewhere_(
      [to, from, bytes, me = weak_from_this(), to_owner = to_owner_, then = std::move(then)] {
        std::memcpy(to, from, bytes);
        to_owner([me, then] {
          if (const auto self = me.lock()) then();
        });
      });
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
    const Stream down = self->device_->dock_streams().down;
    self->follow(down);
    const Vec into(here.lease.writable().data, there.count, there.dtype);
    if (!here.lease.is_pinned())
      return self->ferry_->down(there.vec(), into, [there, here, then] { then(here); });
    Device& device = self->device_->device();
    Fence copied;
    if (device.copy(down, into.data, there.vec().data, into.bytes()) != Fate::ok ||
        self->device_->fences().record(down, copied) != Fate::ok)
      return;
    self->await(copied, [&device, there, here, then] {
      const ConstVec all = here.vec();
      device.touch({all.data, all.bytes(), Access::Mode::reads});
      then(here);
    });
  });
}

// The owner returns the memory, whichever thread ends the last lease: until then passes of the
// rules' stream may read it. A copy that is incomplete at the end does not keep the dock alive.
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

void DeviceDock::follow(Stream stream) {
  Fence passes;
  if (device_->fences().record(device_->rules(), passes) == Fate::ok)
    static_cast<void>(device_->fences().wait(stream, passes));  // lost: no work is done any more
}

void DeviceDock::land(Payload here, Then then) {
  to_owner_([self = shared_from_this(), here = std::move(here), then = std::move(then)]() mutable {
    Payload there{self->take(here.vec().bytes()), here.dtype, here.count, here.version};
    if (!there) return;
    const Stream up = self->device_->dock_streams().up;
    self->follow(up);
    const Vec into(const_cast<void*>(there.lease.vec().data), here.count, here.dtype);
    const auto arrived = [here, there, then] { then(there); };
    if (!here.lease.pin(into.bytes(), self->pinner_))
      return self->ferry_->up(here.vec(), into, arrived, Ferry::Until::there);
    Device& device = self->device_->device();
    device.touch({here.vec().data, into.bytes(), Access::Mode::writes});
    Fence copied;
    if (device.copy(up, into.data, here.vec().data, into.bytes()) == Fate::ok &&
        self->device_->fences().record(up, copied) == Fate::ok)
      self->await(copied, arrived);
  });
}

}  // namespace grapevine
