// DeviceDock: copies payloads between the memory of a device, where its ranks are, and the host's
// memory, which the links use.
//
// Frames between ranks of one device do not come here. A frame that leaves is copied at once and
// whole into pinned memory, which links send and other processes read, and is sent when the copy is
// complete. If that memory cannot be pinned, the frame is copied in pieces (ferry.hpp). A frame
// that arrives is copied to the device in pieces, and is delivered when the copy is complete. Each
// direction has its own stream, so no pass waits for a copy. A payload for which there is no memory
// is dropped, as if the link had lost it.
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
  /// Before the first payload: the owner of the device.
  void serve(ToOwner to_owner) { to_owner_ = std::move(to_owner); }
  /// Also before the first payload: runs tasks on another thread, or drops them at the end. Without
  /// it the owner makes the copies that the device cannot make.
  void copy_by(std::function<void(std::function<void()> task)> elsewhere) {
    elsewhere_ = std::move(elsewhere);
  }

  /// Any thread; then() is called in the owner's time.
  void leave(Payload on_device, Then);
  void land(Payload in_memory, Then);

  // The owner's.
  /// Memory of the device for what arrives; empty: too little is left.
  Lease take(size_t bytes);
  /// Makes the later work of a stream wait for all passes so far, and so for everything that has
  /// used this memory before.
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
