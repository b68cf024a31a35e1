// ControlLink: one connection that carries control messages, in the standard stream framing of
// Cap'n Proto, on any stream. Runs on its loop; other threads may use only the Outbox.
//
// It reads many small messages with one system call and writes all waiting ones with one. Received
// bytes are cut into messages by the announced length, which is checked before anything is stored.
#pragma once
#include <kj/async-io.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/transport/loop.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// The messages that wait to be written: bounded, in order. Any thread.
///
/// While nothing waits, the sending thread writes an occasional message directly into the socket,
/// which saves a change of threads. In a burst the messages wait for the loop, which writes them
/// together.
class Outbox {
 public:
  /// `wake` is called, on the pusher's thread, when something waits and nobody takes.
  Outbox(size_t limit_bytes, std::function<void()> wake)
      : limit_bytes_(limit_bytes), wake_(std::move(wake)) {}

  enum class Bound { full, none };
  /// False: full, or closed; nothing was taken.
  bool push(std::span<const std::byte>, Bound = Bound::full);
  void close();
  /// For plain streams. The descriptor is good until close().
  void write_directly_to(int fd);

  /// For the link: all that waits, into an empty vector. False: nothing does, the next push wakes.
  bool take(std::vector<std::byte>&);
  void written(size_t bytes);

 private:
  size_t write_now(std::span<const std::byte>) GV_REQUIRES(mutex_);  // how many bytes are gone

  const size_t limit_bytes_;
  const std::function<void()> wake_;
  Mutex mutex_;
  std::vector<std::byte> waiting_ GV_GUARDED_BY(mutex_);
  size_t queued_bytes_ GV_GUARDED_BY(mutex_) = 0;  // waiting or being written
  int direct_fd_ GV_GUARDED_BY(mutex_) = -1;
  std::chrono::steady_clock::time_point last_direct_ GV_GUARDED_BY(mutex_);
  bool taken_care_of_ GV_GUARDED_BY(mutex_) = false, closed_ GV_GUARDED_BY(mutex_) = false;
};

class ControlLink {
 public:
  struct Handlers {
    /// One whole message, at an address that is a multiple of eight.
    std::function<void(std::span<const std::byte>)> message;
    std::function<void(const std::string& reason)> closed;  // once, the last call
  };

  /// `plain`: what is written goes to the stream's descriptor as it is.
  ControlLink(kj::Own<kj::AsyncIoStream>, bool plain, std::shared_ptr<Outbox>, Handlers);
  ~ControlLink() { outbox_->close(); }

  void start();
  void flush();  // the outbox woke
  void set_limit(size_t message_bytes) { limit_words_ = message_bytes / sizeof(uint64_t); }
  /// Writes what waits, says that nothing follows, and closes when the other end has done so too.
  void finish();
  void close(const std::string& reason);
  bool gone() const { return gone_; }            // the other end was the first to leave
  bool too_large() const { return too_large_; }  // what the other end announced
  bool open() const { return !closed_ && !finishing_; }

  kj::AsyncIoStream& stream() { return *stream_; }

 private:
  void fail(const kj::Exception&);
  kj::Promise<void> read_some();
  size_t take_messages();  // how many of the buffer's words are done with
  kj::Promise<void> write_all();

  kj::Own<kj::AsyncIoStream> stream_;
  std::shared_ptr<Outbox> outbox_;
  Handlers on_;
  size_t limit_words_ = 512;  // small until the other end has shown who it is
  kj::Array<uint64_t> buffer_;
  size_t have_bytes_ = 0;
  std::vector<std::byte> in_flight_;
  bool writing_ = false, finishing_ = false, closed_ = false, gone_ = false, too_large_ = false;
  kj::Promise<void> reader_ = nullptr, writer_ = nullptr;
};

}  // namespace grapevine
