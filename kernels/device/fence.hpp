// Fence: work on a device that will have happened by then. A value: it is handed on with the memory
// that the work writes, waited for by other streams, asked, and dropped.
//
// Behind a fence is an event of a pool. It goes back with the last copy of the fence, so nobody who
// still means to wait for it finds that it stands for something else. Dropping a fence calls
// nothing of the device, and may be done on any thread.
//
// Streams are of two kinds. A *shared* one serves all ranks of the device: it carries passes and
// copies, and never waits for a lane. A *lane* carries one gradient at a time, as long as that
// takes: whoever needs a gradient is told when it has come (Fences::when) and queues its step then.
// A shared stream that waits for a lane would let all ranks wait for a stranger's gradient, and is
// a broken precondition.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device/device.hpp"

namespace grapevine {

/// Has something done by the owner of a device, later: what the device or another thread tells
/// becomes a message. From any thread, whose messages keep their order; never within the call; when
/// the owner is gone, never at all.
using ToOwner = std::function<void(std::function<void()>)>;

struct Fenced;
using Fence = std::shared_ptr<const Fenced>;  // null: it has happened; lease.hpp has it, too

class Fences {
 public:
  explicit Fences(Device&);
  ~Fences();
  Fences(const Fences&) = delete;

  enum class Kind : uint8_t { shared, lane };
  Fate make_stream(Kind, Stream& out);

  /// All work that is queued on the stream so far.
  Fate record(Stream, Fence& out, Where = Where::current());
  /// Work queued on the stream from now on runs behind the fence. A stream's own fence costs
  /// nothing: it is in order.
  Fate wait(Stream, const Fence&, Where = Where::current());
  /// ok: it has happened, and the host may touch what the work did.
  Fate query(const Fence&, Where = Where::current());
  /// Device::when, of which the fence stays until it is told. REQUIRES: not null.
  void when(const Fence&, std::function<void(Fate)> then, Where = Where::current());

  /// Whether both are of one stream, so that the later one covers the other.
  static bool same_stream(const Fence&, const Fence&);

  size_t events() const { return made_; }  // that were ever made

 private:
  struct Pool;
  Device& device_;
  std::vector<Kind> kinds_;  // by stream
  std::shared_ptr<Pool> pool_;
  size_t made_ = 0;
};

}  // namespace grapevine
