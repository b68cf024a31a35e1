// BulkQueue: frames with a payload that wait for the bulk link of one peer. Each holds a lease, so
// there are few. Any thread.
//
// While the queue is empty, the sending thread writes a frame of at most one mebibyte directly into
// a plain socket, which saves a change of threads. The loop writes the bytes that the socket does
// not take at once. One thread writes at a time: it holds the pen.
//
// A conversation sends a frame again if it is not acknowledged in time. On a slow link a large
// frame may still wait then, here or in the kernel, which takes megabytes that have not left. The
// queue does not take it a second time before the other end's kernel has all of it.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "actors/transport/outgoing_payload.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

class BulkQueue {
 public:
  /// `wake` is called, on any thread, when the loop has to write.
  BulkQueue(size_t limit, std::function<void()> wake) : limit_(limit), wake_(std::move(wake)) {}

  enum class Pushed { refused, queued, sent };
  /// Refused: the queue is full or closed, the connection ended during the write, or the same large
  /// frame waits here, is being written, or is not at the other end yet.
  Pushed push(OutgoingPayload);
  bool empty() const;

  // For the link, on its loop.
  /// A connection is open. `fd`: of its socket, copied; -1: unknown. `plain`: frames may be written
  /// to it directly. `lends`: leases of shared memory are left to the link, which passes their
  /// memory.
  void stand(int fd, bool plain, bool lends);
  /// False: another thread writes. It wakes the loop when it has finished, and no other thread
  /// writes before that.
  bool take_pen();
  /// REQUIRES: the pen. No value: all is written, and the pen is free.
  std::optional<OutgoingPayload> take();
  /// The connection has ended. Returns all leases; the result is their number. `close`: the queue
  /// takes no more frames.
  size_t clear(bool close);

 private:
  struct Socket;
  /// A large frame that the socket has taken whole.
  struct Sent {
    FrameHeader header;
    uint64_t behind = 0;  // bytes that the socket has taken since
  };
  bool goes_directly(const OutgoingPayload&) const GV_REQUIRES(mutex_);
  bool is_under_way(const OutgoingPayload&) GV_REQUIRES(mutex_);
  void forget_arrived() GV_REQUIRES(mutex_);
  void count_behind(uint64_t bytes) GV_REQUIRES(mutex_);
  Pushed write(OutgoingPayload, const std::shared_ptr<Socket>&);

  const size_t limit_;
  const std::function<void()> wake_;
  mutable Mutex mutex_;
  std::deque<OutgoingPayload> items_ GV_GUARDED_BY(mutex_);
  std::optional<FrameHeader> taken_ GV_GUARDED_BY(mutex_);  // the frame that the link writes
  uint64_t taken_bytes_ GV_GUARDED_BY(mutex_) = 0;          // of what it writes
  std::deque<Sent> sent_ GV_GUARDED_BY(mutex_);
  std::shared_ptr<Socket> socket_ GV_GUARDED_BY(mutex_);  // of the open connection
  bool lends_ GV_GUARDED_BY(mutex_) = false, pen_taken_ GV_GUARDED_BY(mutex_) = false;
  bool wanted_ GV_GUARDED_BY(mutex_) = false, closed_ GV_GUARDED_BY(mutex_) = false;
};

}  // namespace grapevine
