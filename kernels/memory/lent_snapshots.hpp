// Snapshots lent between two processes of one host, whose devices reach each other's memory: read
// in place, not sent.
//
// The lender's snapshots are slots of one device block, which the borrower has opened
// (Device::share and open). What crosses between the two is messages, in the order in which they
// were sent:
//
//   lender                                       borrower
//   lend(lease): when the slot holds it
//   ready   {slot, number}  ---------------->    borrow(): a lease, which passes read in place
//                                                the last one goes; when its readers are through
//   released()              <----------------    {slot, number}
//
// No device ever waits for another process: both ends see the fence on the host before they say so,
// therefore the borrower's passes need no wait, and a peer that dies holds up no stream. Every
// lending has a number of its own, so what is said twice or too late meets nothing, and one slot
// may be lent to one borrower several times: a message for all neighbours is written once.
//
// One pair of them for each two processes and direction. Both belong to the owners of their
// devices, who alone call them; leases may go on any thread.
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
  /// Of slots of `size` elements that a SnapshotPool has laid into `block`.
  SnapshotLender(Fences&, const Block& block, size_t size, DType, ToOwner);
  ~SnapshotLender();  // as ended()
  SnapshotLender(const SnapshotLender&) = delete;

  /// All that is queued on the stream when a lease is lent may still write it: nobody needs to say
  /// when it is ready.
  void written_on(Stream stream);

  /// Keeps the lease until the borrower has released it or ended. Calls `ready`, once, when the
  /// slot holds what the lease stands for; never after the end, or of a lost device.
  void lend(const Lease&, std::function<void(LentSlot)> ready);

  /// What the borrower says; or the link, of what it could not tell it. False, and nothing happens:
  /// this is not lent, which no honest borrower would say.
  bool released(const LentSlot&);

  /// The borrower reads no more: its process is dead, or it has said that it is through
  /// (SnapshotBorrower::end). A link that has merely ended says neither.
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

  /// To be called for each `ready`, as they come. On the device, ready, and never writable. Whoever
  /// queues a read of it on another stream than that of read_on() marks it (Lease::read_by); the
  /// lender is told when the last lease has gone and its readers are through. Empty: no honest
  /// lender would say so (the slot is not of the block; the number is an old one; kMost are out),
  /// or the end has come.
  Lease borrow(const LentSlot&);

  /// Nothing is borrowed any more, and nothing said to the lender, who may be dead: its memory
  /// stays open until the last reader is through. Then it is given back, and `then` is called,
  /// once: a link to a lender that lives must stand until then, for its end tells that nobody
  /// reads.
  void end(std::function<void()> then);
  /// The same where the owner is no more, who would have waited for the readers. REQUIRES: no work
  /// is in flight on the device (Device::drain). Who still has a lease reads nothing any more.
  void abandon();

  size_t borrowed() const;  // lendings that are out, or still being read

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace grapevine
