// Snapshots lent between two processes of one host whose devices reach each other's memory: read in
// place, not sent.
//
// The lender's snapshots are slots of one device block, which the borrower has opened
// (Device::share and open). The two exchange messages, in order:
//
//   lender                                       borrower
//   lend(lease): when the slot holds it
//   ready   {slot, number}  ---------------->    borrow(): a lease, which passes read in place
//                                                the last one goes; when its readers are through
//   released()              <----------------    {slot, number}
//
// No device waits for another process: each end sees the fence on its host before it sends a
// message. So the borrower's passes need no wait, and a peer that dies blocks no stream. Every loan
// has its own number, so a message that is repeated or late has no effect. One slot may be lent to
// one borrower several times: a message for all neighbours is written once.
//
// There is one pair for each two processes and direction. The owners of the devices own them and
// alone call them; leases may be destroyed on any thread.
#pragma once
#include <functional>
#include <memory>

#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

struct LentSlot {
  uint32_t slot = 0;    // of the block, from 0
  uint64_t number = 0;  // of the lending, from 1, increasing as `ready` is told
  bool operator==(const LentSlot&) const = default;
};

class SnapshotLender {
 public:
  /// For slots of `size` elements that a SnapshotPool has placed in `block`.
  SnapshotLender(Fences&, const Block& block, size_t size, DType, ToOwner);
  ~SnapshotLender();  // as ended()
  SnapshotLender(const SnapshotLender&) = delete;

  /// Work that is queued on the stream when a lease is lent may still write it: the caller need not
  /// wait for that.
  void written_on(Stream stream);

  /// Keeps the lease until the borrower has released it or ended. Calls `ready`, once, when the
  /// slot holds the snapshot; never after the end, and never for a lost device.
  void lend(const Lease&, std::function<void(LentSlot)> ready);

  /// A release by the borrower, or by the link for a message that it could not send. False, without
  /// effect: this is not lent, which no honest borrower would claim.
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
  static constexpr size_t kMost = 64;  // lendings that are out at once

  /// `size` and dtype are the lender's; `released` carries a message to it.
  SnapshotBorrower(Device&, Fences&, size_t size, DType, ToOwner,
                   std::function<void(LentSlot)> released);
  /// All that is queued on the stream when a lease goes may still read it: nobody needs to mark it.
  void read_on(Stream stream);
  ~SnapshotBorrower();  // as end()
  SnapshotBorrower(const SnapshotBorrower&) = delete;

  /// The lender's block, by a descriptor that stays the caller's. out_of_memory: it cannot be had
  /// here, so snapshots go by the host's memory instead. REQUIRES: nothing is open yet.
  Fate open(int descriptor, uint32_t slots);

  /// To be called for each `ready`, in order. The lease is on the device, ready, and never
  /// writable. A reader on another stream than that of read_on() marks its read (Lease::read_by).
  /// The lender is told when the last lease is gone and its readers have finished. Empty: no honest
  /// lender would send this (the slot is not in the block; the number is an old one; kMost are
  /// lent), or the end has come.
  Lease borrow(const LentSlot&);

  /// Borrows no more and sends nothing more to the lender, which may be dead. Its memory stays open
  /// until the last reader has finished. Then it is returned, and `then` is called, once. A link to
  /// a live lender must stay open until then, because its end means that nothing is read.
  void end(std::function<void()> then);
  /// The same if the owner that would have waited for the readers is gone. REQUIRES: no work is in
  /// flight on the device (Device::drain). Holders of leases read nothing any more.
  void abandon();

  size_t borrowed() const;  // lendings that are out, or still being read

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace grapevine
