// MemoryLine: one end of the connection by which a process lends memory of its device to another
// process of the same host (kernels/memory/lent_snapshots.hpp). A resource; any thread may call.
//
//   lender (Links::lend)                        borrower (LinkEvents::lent)
//   the memory, and how it is cut  ---------->  opens it, or cannot
//                                  <----------  taken, or refused
//   frame {header, slot, number}   ---------->  reads the payload where it lies
//                                  <----------  released {slot, number}
//
// The line's end means something: the borrower's process is dead, or has read all that it will
// read. So the line is no part of the links that it was opened by, which end for other reasons; the
// borrower drops its end when its device is through, and a lender that lends no more says finish()
// and waits for that.
//
// There are never more lendings out than both ends allow, so notes never wait for room.
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

/// What comes from the other end. Called on a link's thread, in order; they post.
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
  /// Nothing follows from this end. What the other one says is still told.
  virtual void finish() = 0;
};

}  // namespace grapevine
