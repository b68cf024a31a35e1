// SnapshotPool: a fixed number of slots of one size, which leases refer to.
//
// Slots are in the host's memory, in memory that other processes may map, or in a block of a
// device. A slot that a device writes is lent before it is written (lease.hpp), and returns when
// the work that reads it is queued: it is written again after that work.
#pragma once
#include <functional>
#include <memory>

#include "kernels/device/fence.hpp"
#include "kernels/memory/lease.hpp"

namespace grapevine {

/// At most `capacity` slots of `size` elements each, allocated when first needed.
class SnapshotPool {
 public:
  enum class Memory { own, shared };  // shared: other processes of this host may read it in place

  /// Pins memory for a device as it is first taken, by the owner of the device alone.
  struct Pinning {
    std::function<bool(void* data, size_t bytes)> pin;  // false: it cannot be
    std::function<void(void* data)> unpin;              // any thread
  };

  SnapshotPool(size_t size, DType dtype, size_t capacity, Memory memory = Memory::own,
               Pinning = {});
  /// All slots lie in `block`, which outlives them, 256 bytes apart at least: bytes_for() in all.
  SnapshotPool(Fences&, const Block& block, size_t size, DType dtype, size_t capacity);
  static size_t bytes_for(size_t size, DType dtype, size_t capacity);
  ~SnapshotPool();
  SnapshotPool(const SnapshotPool&) = delete;

  /// A free slot, its contents unspecified; an empty lease when all are out. Any thread.
  Lease take();

  // For slots in a block; the owner of the device calls these. A free slot for work on `writer`,
  // which will run after the last readers of the slot. Empty also if the device is lost.
  Lease take(Stream writer, Where = Where::current());
  /// A free slot of pinned memory for the host to write: one that no work reads.
  Lease take_host(Where = Where::current());
  /// For tests, whose slots come back in no order: which of n free ones is given out. Else the last
  /// that came back.
  void choose_by(std::function<size_t(size_t n)>);

  size_t in_use() const;
  size_t capacity() const;

 private:
  struct Shared;
  Lease lend(SnapshotSlot*);
  std::shared_ptr<Shared> shared_;
};

}  // namespace grapevine
