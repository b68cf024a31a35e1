// DeviceDock: copies of payloads between a device's memory, where ranks live, and the host's, where
// links find them.
//
// Frames between ranks of one device never come here. One that leaves is copied at once and whole
// into memory that links send and other processes read, which is pinned for that, and goes when the
// copy is there; where such memory cannot be pinned it is copied in pieces (ferry.hpp). One that
// arrives is copied to the device in pieces, and goes on when it is there. Each way has a stream of
// its own, so no pass waits for a copy. A payload for which no memory is left is dropped, as if the
// link had lost it.
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
  /// Likewise: has tasks done on another thread, or drops them at the end. Without it the owner
  /// copies what it cannot have copied by the device.
  void copy_by(std::function<void(std::function<void()> task)> elsewhere) {
    elsewhere_ = std::move(elsewhere);
  }

  /// Any thread; then() is called in the owner's time.
  void leave(Payload on_device, Then);
  void land(Payload in_memory, Then);

  // The owner's.
  /// Memory of the device for what arrives; empty: too little is left.
  Lease take(size_t bytes);
  /// What a stream does from now on is behind all passes so far, and so behind all that has used
  /// such memory before.
  void follow(Stream stream);

 private:
  void await(const Fence&, std::function<void()> then);
  void copy_here(void* to, const void* from, size_t bytes, std::function<void()> then);

  const std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  std::function<void(std::function<void()>)> elsewhere_;
  SnapshotPool outgoing_;
  std::unique_ptr<Ferry> ferry_;  // the owner's
};

}  // namespace grapevine
