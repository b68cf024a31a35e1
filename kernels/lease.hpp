// Lease: a counted claim on one immutable slot of a SnapshotPool.
//
// A snapshot is written once, by the state actor that owns the pool, and then only read: by a link
// that sends it, by a worker that computes on it, by the exchange that applies it. The slot returns
// to its pool when the last lease goes, on whatever thread that happens. Leases are cheap to copy
// (one atomic increment) and may outlive the pool object: the slots' memory goes with the last of
// both.
#pragma once
#include <functional>
#include <memory>

#include "kernels/vec.hpp"

namespace grapevine {

class SharedMemory;  // kernels/shared_memory.hpp
class SnapshotPool;
struct SnapshotSlot;  // defined in lease.cpp

class Lease {
 public:
  Lease() = default;
  Lease(const Lease& other);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease other) noexcept;
  ~Lease();

  /// On memory of somebody else, which stays as it is until `released` is called, once, when the
  /// last lease goes. Never writable.
  static Lease of(ConstVec memory, std::function<void()> released);

  explicit operator bool() const { return slot_ != nullptr; }
  ConstVec vec() const;          // REQUIRES: not empty
  Vec writable();                // REQUIRES: not empty, and no other lease on the slot exists
  double phase() const;          // the mixing phase when it was taken (see a2cid2.hpp)
  void set_phase(double phase);  // REQUIRES: as writable()

  /// The memory that the slot lies in, from its start, when other processes may map it; else null.
  const SharedMemory* shared() const;
  /// Leaves that memory to whoever else may still read it: the slot gets another one before it is
  /// used again.
  void retire();

 private:
  friend class SnapshotPool;
  explicit Lease(SnapshotSlot* slot) : slot_(slot) {}
  SnapshotSlot* slot_ = nullptr;
};

/// At most `capacity` slots of `size` elements each, allocated when first needed.
class SnapshotPool {
 public:
  enum class Memory { own, shared };  // shared: other processes of this host may read it in place

  SnapshotPool(size_t size, DType dtype, size_t capacity, Memory memory = Memory::own);
  ~SnapshotPool();
  SnapshotPool(const SnapshotPool&) = delete;

  /// A free slot, its contents unspecified; an empty lease when all are out. Any thread.
  Lease take();
  size_t in_use() const;
  size_t capacity() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// What travels in a frame: a slot, and how much of it is meant.
struct Payload {
  Lease lease;
  DType dtype = DType::f32;
  size_t count = 0;      // elements of `dtype`, from the slot's start
  uint32_t version = 0;  // of what it was encoded with, where both ends must have the same

  explicit operator bool() const { return static_cast<bool>(lease); }
  ConstVec vec() const { return {lease.vec().data, count, dtype}; }
  /// The slot as `n` elements of `type` to write; they are what is meant from now on.
  Vec writable(DType type, size_t n) {
    GV_CHECK(n * size_of(type) <= lease.vec().bytes());
    dtype = type;
    count = n;
    return {lease.writable().data, n, type};
  }
};

}  // namespace grapevine
