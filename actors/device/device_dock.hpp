// DeviceDock: copies payloads between the memory of a device, which has its ranks, and the host's
// memory, which the links use.
//
// Frames between ranks of one device do not use it. A frame that leaves is copied at once and whole
// into pinned memory, from which links and other processes read it, and is sent when the copy is
// complete. The memory of a frame that arrives is pinned when it is first used for one. The frame
// is copied to the device at once and whole, and is delivered when the copy is complete. If memory
// cannot be pinned, a frame is copied in pieces (ferry.hpp). Each direction has its own stream, so
// no pass waits for a copy. If there is no memory for a payload, it is dropped, as if the link had
// lost it.
//
// The owner of the device pins what arrives, not the thread of the links that takes the memory:
// only the owner calls a device, and pinning may take some milliseconds.
#pragma once
#include <functional>
#include <memory>

#include "actors/device/device_share.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

class DeviceDock : public std::enable_shared_from_this<DeviceDock> {
 public:
  using Then = std::function<void(Payload)>;

  /// A payload has at most `largest` bytes; `capacity` payloads can leave at the same time.
  DeviceDock(std::shared_ptr<DeviceShare>, size_t largest, size_t capacity,
             SnapshotPool::Memory memory);
  /// Sets the owner of the device, before the first payload.
  void serve(ToOwner to_owner) { to_owner_ = std::move(to_owner); }
  /// Also before the first payload: `elsewhere` runs tasks on another thread, or drops them at the
  /// end. Without it the owner makes the copies that the device cannot make.
  void copy_by(std::function<void(std::function<void()> task)> elsewhere) {
    elsewhere_ = std::move(elsewhere);
  }

  /// Any thread may call these; the owner calls then().
  void leave(Payload on_device, Then);
  void land(Payload in_memory, Then);

  // Called by the owner.
  /// Memory of the device for a payload that arrives; empty: too little is left.
  Lease take(size_t bytes);
  /// Makes the later work of a stream wait for all passes so far, and so for every earlier use of
  /// this memory.
  void follow(Stream stream);

 private:
  void await(const Fence&, std::function<void()> then);
  void copy_here(void* to, const void* from, size_t bytes, std::function<void()> then);

  const std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  std::function<void(std::function<void()>)> elsewhere_;
  const Pinner pinner_;
  SnapshotPool outgoing_;
  std::unique_ptr<Ferry> ferry_;  // used by the owner alone
};

}  // namespace grapevine
