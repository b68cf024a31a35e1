// Lease: a counted reference to one immutable slot of a SnapshotPool (snapshot_pool.hpp).
//
// A snapshot is written once, by the state actor that owns the pool. Then it is only read: a link
// sends it, a worker computes on it, an exchange applies it. The slot returns to its pool when the
// last lease is destroyed, on any thread. Leases are cheap to copy (one atomic increment) and may
// outlive the pool object: the slots' memory is freed with the last lease or the pool, whichever is
// later.
//
// A device reads and writes slots (its own memory, or pinned host memory) asynchronously. The lease
// of such a slot carries a fence; after it, the slot holds the snapshot. So the lease may be passed
// on before the device has written it. The slot keeps the fences of the work that reads it. So it
// returns to the pool when that work is queued, and is written again after these fences. Only the
// owner of the device uses fences, on any thread that has the lease.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernels/memory/vec.hpp"

namespace grapevine {

struct Fenced;       // kernels/device/fence.hpp
struct Pinner;       // kernels/memory/pin.hpp
class SharedMemory;  // kernels/memory/shared_memory.hpp
class SnapshotPool;  // kernels/memory/snapshot_pool.hpp
struct SnapshotSlot;

using Fence = std::shared_ptr<const Fenced>;  // null: it has happened

class Lease {
 public:
  Lease() = default;
  Lease(const Lease& other);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease other) noexcept;
  ~Lease();

  /// A lease on other memory, which must not change until `released` is called, once, when the last
  /// lease goes. Never writable.
  static Lease of(ConstVec memory, std::function<void()> released);
  /// The first `bytes` of memory that another process made and may still write to, so
  /// each byte is read once. It keeps the mapping.
  static Lease of(std::shared_ptr<const SharedMemory>, size_t bytes,
                  std::function<void()> released);
  /// A lease on a device's memory. Work may still read it when the last lease goes; `released`
  /// gets the fences after which no work reads it.
  static Lease of_device(ConstVec memory, std::function<void(std::vector<Fence> readers)> released);

  explicit operator bool() const { return slot_ != nullptr; }
  /// REQUIRES: not empty, and the slot is a device's or its fence was seen.
  ConstVec vec() const;
  Vec writable();                // REQUIRES: not empty, and no other lease on the slot exists
  double phase() const;          // the mixing phase when it was taken (see a2cid2.hpp)
  void set_phase(double phase);  // REQUIRES: as writable()

  /// Whether it is in a device's memory, which only passes and copies use.
  bool on_device() const;
  /// Whether all of it is pinned, so that a device copies from it and to it.
  bool is_pinned() const;
  /// Pins at least its first `bytes`, unless that was done before. False: they cannot be pinned.
  /// The owner of the device calls it. REQUIRES: no queued work uses the slot.
  bool pin(size_t bytes, const Pinner&);
  /// After this fence the slot holds the snapshot; null: it already does.
  const Fence& ready() const;
  void set_ready(Fence);  // REQUIRES: as writable()
  /// The host has seen the fence (Fences::query or when) and may read.
  void set_seen();
  /// Queued work reads the slot: it must not be written before this fence. Call it before the last
  /// lease is destroyed. Work on the stream that writes the slot does not need it; it is in order
  /// anyway.
  void read_by(Fence);

  /// The memory of the slot, from its start, if other processes may map it; otherwise null.
  const SharedMemory* shared() const;
  /// Leaves the memory to its other readers: the slot gets new memory before it is used again.
  void retire();

 private:
  friend class SnapshotPool;
  explicit Lease(SnapshotSlot* slot) : slot_(slot) {}
  static Lease lent(ConstVec, bool is_on_device, std::function<void(std::vector<Fence>)> released);
  SnapshotSlot* slot_ = nullptr;
};

/// The payload of a frame: a slot and its used part.
struct Payload {
  Lease lease;
  DType dtype = DType::f32;
  size_t count = 0;      // elements of `dtype`, from the slot's start
  uint32_t version = 0;  // of the state used to encode it, if both ends must have the same

  explicit operator bool() const { return static_cast<bool>(lease); }
  ConstVec vec() const { return {lease.vec().data, count, dtype}; }
  /// The slot as `n` elements of `type` to write; they become the used part.
  Vec writable(DType type, size_t n) {
    GV_CHECK(n * size_of(type) <= lease.vec().bytes());
    dtype = type;
    count = n;
    return {lease.writable().data, n, type};
  }
};

}  // namespace grapevine
