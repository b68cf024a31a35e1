// BulkQueue: frames with a payload that wait for the bulk link of one peer. Each holds a lease, so
// there are few. Any thread.
//
// While the queue is empty, the sending thread writes a frame of at most one mebibyte directly into
// a plain socket, which saves a change of threads. The loop writes the bytes that the socket does
// not take at once. One thread writes at a time: it holds the pen.
//
// A conversation sends a frame again if it is not acknowledged in time. On a slow link a large
// frame may still wait here then: the queue does not take it a second time.
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
  /// frame waits here or is being written.
  Pushed push(OutgoingPayload);
  bool empty() const;

  // For the link, on its loop.
  /// A connection is open. `fd`: of a plain socket for direct writes, copied; otherwise -1.
  /// `lends`: leases of shared memory are left to the link, which passes their memory.
  void stand(int fd, bool lends);
  /// False: another thread writes. It wakes the loop when it has finished, and no other thread
  /// writes before that.
  bool take_pen();
  /// REQUIRES: the pen. No value: all is written, and the pen is free.
  std::optional<OutgoingPayload> take();
  /// The connection has ended. Returns all leases; the result is their number. `close`: the queue
  /// takes no more frames.
  size_t clear(bool close);

 private:
  struct Direct;
  bool goes_directly(const OutgoingPayload&) const GV_REQUIRES(mutex_);
  bool is_under_way(const OutgoingPayload&) const GV_REQUIRES(mutex_);
  Pushed write(OutgoingPayload, const std::shared_ptr<Direct>&);

  const size_t limit_;
  const std::function<void()> wake_;
  mutable Mutex mutex_;
  std::deque<OutgoingPayload> items_ GV_GUARDED_BY(mutex_);
  std::optional<FrameHeader> taken_ GV_GUARDED_BY(mutex_);  // the frame that the link writes
  // The open connection's, if it allows direct writes.
  std::shared_ptr<Direct> direct_ GV_GUARDED_BY(mutex_);
  bool lends_ GV_GUARDED_BY(mutex_) = false, pen_taken_ GV_GUARDED_BY(mutex_) = false;
  bool wanted_ GV_GUARDED_BY(mutex_) = false, closed_ GV_GUARDED_BY(mutex_) = false;
};

}  // namespace grapevine
