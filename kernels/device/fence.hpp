// Fence: a point in the work of a device. A value: it is passed on with the memory that the work
// writes, other streams wait for it, the host polls it.
//
// A fence holds an event of a pool. The event returns to the pool with the last copy of the fence,
// so it is never reused while somebody still waits for it. Dropping a fence makes no call of the
// device and may be done on any thread.
//
// Streams are of two kinds. A *shared* one serves all ranks of the device: it carries passes and
// copies, and never waits for a lane. A *lane* carries one gradient at a time, as long as that
// takes. When a gradient is ready, its user is notified (Fences::when) and queues the step then. If
// a shared stream waited for a lane, all ranks would wait for one gradient; this is a broken
// precondition.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device/device.hpp"

namespace grapevine {

/// Runs a function on the owner of a device, later: a notification of the device or of another
/// thread becomes a message. From any thread; the messages of one thread keep their order; never
/// within the call; if the owner is gone, never at all.
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
  /// ok: the work has happened, and the host may use its memory.
  Fate query(const Fence&, Where = Where::current());
  /// Device::when; the fence stays until the call. REQUIRES: not null.
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
