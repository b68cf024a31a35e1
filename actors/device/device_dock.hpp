// DeviceDock: copies of payloads between a device's memory, where ranks live, and the host's, where
// links find them.
//
// Frames between ranks of one device never come here. One that leaves is copied into shared memory
// and goes when the copy is there; one that arrives is copied to the device and goes on as soon as
// that is queued, for whoever works on it does so in the same stream. A payload for which no memory
// is left is dropped, as if the link had lost it.
#pragma once
#include <functional>
#include <memory>

#include "actors/device/device_share.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

class DeviceDock : public std::enable_shared_from_this<DeviceDock> {
 public:
  using Then = std::function<void(Payload)>;

  /// Payloads have `largest` bytes at most, of which `capacity` leave at once.
  DeviceDock(std::shared_ptr<DeviceShare>, size_t largest, size_t capacity,
             SnapshotPool::Memory memory);
  /// Before the first payload: who owns the device.
  void serve(ToOwner to_owner) { to_owner_ = std::move(to_owner); }

  /// Any thread; then() is called in the owner's time.
  void leave(Payload on_device, Then);
  void land(Payload in_memory, Then);

  // The owner's.
  /// Memory of the device for what arrives; empty: too little is left.
  Lease take(size_t bytes);
  /// What a lane does from now on is behind all passes so far, and so behind all that has used such
  /// memory before.
  void follow(Stream lane);

 private:
  void await(const Fence&, std::function<void()> then);

  const std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  SnapshotPool outgoing_;
  std::unique_ptr<Ferry> ferry_;  // the owner's
};

}  // namespace grapevine
