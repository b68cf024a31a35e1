// Snapshots that one process lends to another on the same host, if their devices reach each other's
// memory: they are read in place, not sent.
//
// The lender's snapshots are slots of one device block, which the borrower has opened
// (Device::share and open). The two exchange messages, in order:
//
//   lender                                       borrower
//   lend(lease): waits until the slot holds it
//   ready   {slot, number}  ---------------->    borrow(): a lease, which passes read in place
//                                                the last lease goes; its readers finish
//   released()              <----------------    {slot, number}
//
// No device waits for another process: each end sees the fence on its host before it sends a
// message. So the borrower's passes need no wait, and a peer that dies blocks no stream. Every loan
// has its own number, so a repeated or late message has no effect. One slot may be lent to one
// borrower several times: a message for all neighbours is written once.
//
// Each two processes have one lender and borrower per direction. Only the owners of the devices own
// and call them; any thread may destroy leases.
#pragma once
#include <functional>
#include <memory>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

struct LentSlot {
  uint32_t slot = 0;    // of the block, from 0
  uint64_t number = 0;  // of the loan, from 1; increases with each `ready`
  bool operator==(const LentSlot&) const = default;
};

class SnapshotLender {
 public:
  /// For the slots of `size` elements that a SnapshotPool has in `block`.
  SnapshotLender(Fences&, const Block& block, size_t size, DType, ToOwner);
  ~SnapshotLender();  // as ended()
  SnapshotLender(const SnapshotLender&) = delete;

  /// Work queued on this stream may still write a slot when its lease is lent; lend() waits for it.
  void written_on(Stream stream);

  /// Keeps the lease until the borrower has released it or ended. Calls `ready` once when the slot
  /// holds the snapshot; never after the end or for a lost device.
  void lend(const Lease&, std::function<void(LentSlot)> ready);

  /// A release by the borrower, or by the link for a message that it could not send. False, without
  /// effect: this is not lent, so the borrower is wrong.
  bool released(const LentSlot&);

  /// The borrower reads no more: its process is dead, or it has said that it has finished
  /// (SnapshotBorrower::end). The end of a link proves neither.
  void ended();

  size_t lent() const;  // leases that are kept

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

class SnapshotBorrower {
 public:
  static constexpr size_t kMost = 64;  // loans at a time

  /// `size` and dtype are the lender's; `released` carries a message to it.
  SnapshotBorrower(Device&, Fences&, size_t size, DType, ToOwner,
                   std::function<void(LentSlot)> released);
  /// Work queued on this stream when a lease goes may still read the slot; no reader there needs to
  /// mark its read.
  void read_on(Stream stream);
  ~SnapshotBorrower();  // as end()
  SnapshotBorrower(const SnapshotBorrower&) = delete;

  /// Opens the lender's block by a descriptor, which the caller still owns. out_of_memory: it
  /// cannot be opened here, so snapshots use the host's memory instead. REQUIRES: nothing is open
  /// yet.
  Fate open(int descriptor, uint32_t slots);

  /// Call it for each `ready`, in order. The lease is on the device, ready, and never writable. A
  /// reader on a stream other than read_on()'s marks its read (Lease::read_by). The lender is told
  /// when the last lease is gone and its readers have finished. Empty: the end has come, or the
  /// lender is wrong (the slot is not in the block; the number is old; kMost are lent).
  Lease borrow(const LentSlot&);

  /// Borrows no more and sends nothing more to the lender, which may be dead. The lender's memory
  /// stays open until the last reader has finished. Then it is returned, and `then` is called,
  /// once. A link to a live lender must stay open until then, because the link's end would mean
  /// that nothing is read.
  void end(std::function<void()> then);
  /// The same if the owner that waits for the readers is gone. REQUIRES: no work is in flight on
  /// the device (Device::drain); holders of leases read nothing more.
  void abandon();

  size_t borrowed() const;  // loans with a lease or a running reader

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace grapevine
