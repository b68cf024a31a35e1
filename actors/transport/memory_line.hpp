// MemoryLine: one end of the connection over which a process lends memory of its device to another
// process of the same host (kernels/memory/lent_snapshots.hpp). Any thread may call it.
//
//   lender (Links::lend)                        borrower (LinkEvents::lent)
//   the memory, and how it is cut  ---------->  opens it, or cannot
//                                  <----------  taken, or refused
//   frame {header, slot, number}   ---------->  reads the payload in place
//                                  <----------  released {slot, number}
//
// The end of the line proves that the borrower's process is dead or has finished reading. So the
// line does not belong to the links over which it was opened, which may end for other reasons. The
// borrower closes its end when its device has finished. A lender that lends no more calls finish()
// and waits for that.
//
// The number of open loans is limited at both ends, so there is always room for a record.
#pragma once
#include <functional>
#include <memory>

#include "kernels/memory/lent_snapshots.hpp"
#include "messages/codec.hpp"

namespace grapevine {

class Descriptor;  // kernels/base/descriptor.hpp

/// A block of a device, cut into slots.
struct LentMemory {
  std::shared_ptr<const Descriptor> descriptor;  // Device::share
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;
};

struct LineNote {
  enum class Kind : uint16_t {
    taken = 1,  // from the borrower
    refused,    // likewise; at the lender also: the borrower broke the protocol
    frame,      // from the lender
    released    // from the borrower
  };
  Kind kind = Kind::taken;
  FrameHeader header = {};  // frame: valid, and its payload fits a slot
  LentSlot lent = {};       // frame, released
};

/// Messages of the other end. A link's thread calls these in order; the functions post.
struct LineEvents {
  std::function<void(const LineNote&)> note;
  std::function<void()> ended;  // once, the last call
};

class MemoryLine {
 public:
  static constexpr size_t kMostLent = SnapshotBorrower::kMost;  // at the same time

  /// Closes this end. No function is called after it.
  virtual ~MemoryLine() = default;
  /// False: the line has ended, or too much is lent.
  virtual bool send(const LineNote&) = 0;
  /// This end sends no more. Messages of the other end are still reported.
  virtual void finish() = 0;
};

}  // namespace grapevine
