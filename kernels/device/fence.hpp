// Fence: a point in the work of a device. A value: it is passed on with the memory that the work
// writes. Other streams wait for it; the host polls it.
//
// A fence holds an event of a pool. The event returns to the pool with the last copy of the fence,
// so it is never reused while anything still waits for it. Dropping a fence makes no call of the
// device; any thread may drop it.
//
// There are two kinds of streams. A *shared* stream serves all ranks of the device: it carries
// passes and copies, and never waits for a lane. A *lane* carries one gradient at a time. When a
// gradient is ready, its user is notified (Fences::when) and then queues the step. If a shared
// stream waited for a lane, all ranks would wait for one gradient; this breaks the precondition.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device/device.hpp"

namespace grapevine {

/// Runs a function on the owner of a device, later: a notification by the device or another thread
/// becomes a message. Any thread may call it. Messages of one thread keep their order. The function
/// never runs within the call, and never if the owner is gone.
using ToOwner = std::function<void(std::function<void()>)>;

struct Fenced;
using Fence = std::shared_ptr<const Fenced>;  // null: it has happened; lease.hpp declares it, too

class Fences {
 public:
  explicit Fences(Device&);
  ~Fences();
  Fences(const Fences&) = delete;

  enum class Kind : uint8_t { shared, lane };
  Fate make_stream(Kind, Stream& out);

  /// A fence for all work queued on the stream so far.
  Fate record(Stream, Fence& out, Where = Where::current());
  /// Work queued on the stream from now on runs after the fence. A stream's own fence needs no call
  /// of the device: the stream is in order.
  Fate wait(Stream, const Fence&, Where = Where::current());
  /// ok: the work is done, and the host may use its memory.
  Fate query(const Fence&, Where = Where::current());
  /// Device::when; the fence is kept until the call. REQUIRES: not null.
  void when(const Fence&, std::function<void(Fate)> then, Where = Where::current());

  /// Whether both are on one stream, so that the later one covers the other.
  static bool same_stream(const Fence&, const Fence&);

  size_t events() const { return made_; }  // all that were ever made

 private:
  struct Pool;
  Device& device_;
  std::vector<Kind> kinds_;  // by stream
  std::shared_ptr<Pool> pool_;
  size_t made_ = 0;
};

}  // namespace grapevine
