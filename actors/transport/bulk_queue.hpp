// BulkQueue: frames with a payload that wait for the bulk link of one peer. Each holds a lease, so
// there are few. Any thread.
//
// While nothing waits, the sending thread writes a frame of at most one mebibyte directly into a
// plain socket, which saves a change of threads. The loop writes the bytes that the socket does not
// take at once. One thread writes at a time: it holds the pen.
//
// A conversation sends a frame again if nobody acknowledges it in time. On a slow link a large
// frame may then still wait here: it is not taken a second time.
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
  /// `wake` is called, on any thread, when the loop is wanted.
  BulkQueue(size_t limit, std::function<void()> wake) : limit_(limit), wake_(std::move(wake)) {}

  enum class Pushed { refused, queued, sent };
  /// Refused: full, closed, the connection went in the middle of it, or the same large frame waits
  /// here or is being written.
  Pushed push(OutgoingPayload);
  bool empty() const;

  // For the link, on its loop.
  /// A connection stands. `fd`: of a plain socket to write into directly, otherwise -1; copied.
  /// `lends`: leases of shared memory are for the link to pass.
  void stand(int fd, bool lends);
  /// False: another thread writes; it wakes the loop when it is done, and none begins before that.
  bool take_pen();
  /// REQUIRES: the pen. Nothing: all is written, and the pen is laid down.
  std::optional<OutgoingPayload> take();
  /// The connection has ended. Gives all leases back; how many there were. Closed: nothing is taken
  /// any more.
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
  // Of the connection that stands, if it may be written into.
  std::shared_ptr<Direct> direct_ GV_GUARDED_BY(mutex_);
  bool lends_ GV_GUARDED_BY(mutex_) = false, pen_taken_ GV_GUARDED_BY(mutex_) = false;
  bool wanted_ GV_GUARDED_BY(mutex_) = false, closed_ GV_GUARDED_BY(mutex_) = false;
};

}  // namespace grapevine
