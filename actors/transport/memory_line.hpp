// MemoryLine: one end of the connection by which a process lends memory of its device to another
// process of the same host (kernels/memory/lent_snapshots.hpp). A resource; any thread may call.
//
//   lender (Links::lend)                        borrower (LinkEvents::lent)
//   the memory, and how it is cut  ---------->  opens it, or cannot
//                                  <----------  taken, or refused
//   frame {header, slot, number}   ---------->  reads the payload where it lies
//                                  <----------  released {slot, number}
//
// The end of the line proves that the borrower's process is dead or has finished reading. So the
// line does not belong to the links by which it was opened, which end for other reasons. The
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
    refused,    // likewise; at the lender also: it has said what no honest borrower says
    frame,      // from the lender
    released    // from the borrower
  };
  Kind kind = Kind::taken;
  FrameHeader header = {};  // frame: valid, and its payload fits a slot
  LentSlot lent = {};       // frame, released
};

/// Messages of the other end. Called on the thread of a link, in order; the functions post.
struct LineEvents {
  std::function<void(const LineNote&)> note;
  std::function<void()> ended;  // once, the last call
};

class MemoryLine {
 public:
  static constexpr size_t kMostLent = SnapshotBorrower::kMost;  // at once

  /// Closes this end. Nothing is told any more once the object is gone.
  virtual ~MemoryLine() = default;
  /// False: the line has ended, or so much is lent already.
  virtual bool send(const LineNote&) = 0;
  /// This end sends nothing more. Messages of the other end are still reported.
  virtual void finish() = 0;
};

}  // namespace grapevine
