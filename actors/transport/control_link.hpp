// ControlLink: one connection for control messages, in the standard stream framing of Cap'n Proto,
// on any stream. Runs on its loop; other threads may use only the Outbox.
//
// It reads many small messages with one system call and writes all waiting ones with one. Received
// bytes are cut into messages by the announced length, which is checked before any byte is stored.
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
/// While the outbox is empty, the sending thread writes a message directly into the socket, which
/// saves a change of threads. In a burst the messages wait for the loop, which writes them
/// together.
class Outbox {
 public:
  /// `wake` is called on the sender's thread when a message waits and the loop does not write.
  Outbox(size_t limit_bytes, std::function<void()> wake)
      : limit_bytes_(limit_bytes), wake_(std::move(wake)) {}

  enum class Bound { full, none };
  /// False: the outbox is full or closed, and the message was not taken.
  bool push(std::span<const std::byte>, Bound = Bound::full);
  void close();
  /// For plain streams. The descriptor is valid until close().
  void write_directly_to(int fd);

  /// For the link: moves all waiting bytes into an empty vector. False: there are none, and the
  /// next push wakes the loop.
  bool take(std::vector<std::byte>&);
  void written(size_t bytes);

 private:
  // Returns the number of written bytes.
  size_t write_now(std::span<const std::byte>) GV_REQUIRES(mutex_);

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

  /// `plain`: written bytes go to the stream's descriptor unchanged.
  ControlLink(kj::Own<kj::AsyncIoStream>, bool plain, std::shared_ptr<Outbox>, Handlers);
  ~ControlLink() { outbox_->close(); }

  void start();
  void flush();  // the outbox has woken the loop
  void set_limit(size_t message_bytes) { limit_words_ = message_bytes / sizeof(uint64_t); }
  /// Writes the waiting messages, announces the end, and closes when the other end has done the
  /// same.
  void finish();
  void close(const std::string& reason);
  bool gone() const { return gone_; }            // the other end was the first to close
  bool too_large() const { return too_large_; }  // the other end announced a message over the limit
  bool open() const { return !closed_ && !finishing_; }

  kj::AsyncIoStream& stream() { return *stream_; }

 private:
  void fail(const kj::Exception&);
  kj::Promise<void> read_some();
  size_t take_messages();  // returns the number of used words in the buffer
  kj::Promise<void> write_all();

  kj::Own<kj::AsyncIoStream> stream_;
  std::shared_ptr<Outbox> outbox_;
  Handlers on_;
  size_t limit_words_ = 512;  // small until the other end has identified itself
  kj::Array<uint64_t> buffer_;
  size_t have_bytes_ = 0;
  std::vector<std::byte> in_flight_;
  bool writing_ = false, finishing_ = false, closed_ = false, gone_ = false, too_large_ = false;
  bool heard_ = false;  // a message of the other end was taken
  kj::Promise<void> reader_ = nullptr, writer_ = nullptr;
};

}  // namespace grapevine
