// SnapshotPool: a fixed number of slots of one size; leases refer to them.
//
// Slots are in the host's memory, in memory that other processes may map, or in a block of a
// device. A slot that a device writes is leased before it is written (lease.hpp). It returns when
// the work that reads it is queued, and is written again after that work.
#pragma once
#include <functional>
#include <memory>

#include "kernels/device/fence.hpp"
#include "kernels/memory/lease.hpp"
#include "kernels/memory/pin.hpp"

namespace grapevine {

/// At most `capacity` slots of `size` elements each, allocated when first needed.
class SnapshotPool {
 public:
  enum class Memory { own, shared };  // shared: other processes may read it in place

  /// `pinner`: a slot is pinned for a device when it is first taken; only the owner of the device
  /// may take it then.
  SnapshotPool(size_t size, DType dtype, size_t capacity, Memory memory = Memory::own,
               Pinner pinner = {});
  /// All slots are in `block`, which must outlive them and have bytes_for(); slots start at least
  /// 256 bytes apart.
  SnapshotPool(Fences&, const Block& block, size_t size, DType dtype, size_t capacity);
  static size_t bytes_for(size_t size, DType dtype, size_t capacity);
  ~SnapshotPool();
  SnapshotPool(const SnapshotPool&) = delete;

  /// A free slot with unspecified contents; an empty lease if all are out. Any thread may call it.
  Lease take();

  // For slots in a block; the owner of the device calls these. A free slot for work on `writer`,
  // which runs after the last readers of the slot. Empty also if the device is lost.
  Lease take(Stream writer, Where = Where::current());
  /// A free slot of pinned memory for the host to write, which no work reads.
  Lease take_host(Where = Where::current());
  /// For tests of slots in any order: chooses which of n free slots is taken. Default: the last one
  /// returned.
  void choose_by(std::function<size_t(size_t n)>);

  size_t in_use() const;
  size_t capacity() const;

 private:
  struct Shared;
  Lease lend(SnapshotSlot*);
  std::shared_ptr<Shared> shared_;
};

}  // namespace grapevine
