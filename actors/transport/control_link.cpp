#include "actors/transport/control_link.hpp"

#include <fmt/core.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

namespace grapevine {
namespace {

constexpr size_t kFirstWords = 512, kKeptBytes = 64 * 1024;
constexpr uint32_t kMostSegments = 64;
constexpr auto kDirectEvery = std::chrono::microseconds(20);

/// The announced length of the message that begins here, in words; 0: more bytes are needed. Cap'n
/// Proto's framing: u32 segments - 1, then the words of each segment, padded to a whole word.
uint64_t announced_words(const uint64_t* words, size_t have) {
  const auto* numbers = reinterpret_cast<const unsigned char*>(words);
  const auto number = [&](size_t k) {
    uint32_t value;
    std::memcpy(&value, numbers + 4 * k, sizeof value);
    return uint64_t{value};
  };
  if (have == 0) return 0;
  const uint64_t segments = number(0) + 1;
  if (segments > kMostSegments) return ~uint64_t{0};
  const uint64_t table = segments / 2 + 1;
  if (have < table) return 0;
  uint64_t total = table;
  for (uint64_t k = 1; k <= segments; ++k)
    total += number(k);
  return total;
}

}  // namespace

bool Outbox::push(std::span<const std::byte> message, Bound bound) {
  {
    const Lock lock(mutex_);
    if (closed_) return false;
    if (bound == Bound::full && queued_bytes_ + message.size() > limit_bytes_) return false;
    if (!taken_care_of_) message = message.subspan(write_now(message));
    if (message.empty()) return true;
    queued_bytes_ += message.size();
    waiting_.insert(waiting_.end(), message.begin(), message.end());
    if (std::exchange(taken_care_of_, true)) return true;
  }
  wake_();
  return true;
}

size_t Outbox::write_now(std::span<const std::byte> message) {
  if (direct_fd_ < 0) return 0;
  const auto now = std::chrono::steady_clock::now();
  if (now - std::exchange(last_direct_, now) < kDirectEvery) return 0;
  const ssize_t n = ::send(direct_fd_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return n > 0 ? static_cast<size_t>(n) : 0;  // the loop notices errors by itself
}

void Outbox::write_directly_to(int fd) {
  const Lock lock(mutex_);
  direct_fd_ = fd;
}

void Outbox::close() {
  const Lock lock(mutex_);
  closed_ = true;
}

bool Outbox::take(std::vector<std::byte>& into) {
  const Lock lock(mutex_);
  std::swap(into, waiting_);
  if (into.empty()) taken_care_of_ = false;
  return !into.empty();
}

void Outbox::written(size_t bytes) {
  const Lock lock(mutex_);
  queued_bytes_ -= bytes;
}

ControlLink::ControlLink(kj::Own<kj::AsyncIoStream> stream, bool plain,
                         std::shared_ptr<Outbox> outbox, Handlers handlers)
    : stream_(kj::mv(stream)),
      outbox_(std::move(outbox)),
      on_(std::move(handlers)),
      buffer_(kj::heapArray<uint64_t>(kFirstWords)) {
  if (plain) {
    KJ_IF_MAYBE (fd, stream_->getFd()) {
      outbox_->write_directly_to(*fd);
    }
  }
}

void ControlLink::start() {
  reader_ = kj::evalLater([this] {
              return read_some();
            }).eagerlyEvaluate([this](kj::Exception&& e) { fail(e); });
}

void ControlLink::flush() {
  if (writing_ || closed_) return;
  writing_ = true;
  writer_ = kj::evalNow([this] { return write_all(); }).eagerlyEvaluate([this](kj::Exception&& e) {
    fail(e);
  });
}

void ControlLink::finish() {
  outbox_->close();
  finishing_ = true;
  flush();
}

void ControlLink::fail(const kj::Exception& e) {
  const bool gone = e.getType() == kj::Exception::Type::DISCONNECTED;
  gone_ = gone_ || gone;
  close(gone ? "the other end is gone: " + reason_of(e) : reason_of(e));
}

void ControlLink::close(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  outbox_->close();
  on_.closed(reason);
}

kj::Promise<void> ControlLink::write_all() {
  in_flight_.clear();
  if (in_flight_.capacity() > kKeptBytes) in_flight_.shrink_to_fit();
  writing_ = !closed_ && outbox_->take(in_flight_);
  if (!writing_) {
    if (finishing_ && !closed_) stream_->shutdownWrite();
    return kj::READY_NOW;
  }
  return stream_->write(in_flight_.data(), in_flight_.size()).then([this] {
    outbox_->written(in_flight_.size());
    return write_all();
  });
}

kj::Promise<void> ControlLink::read_some() {
  auto* to = reinterpret_cast<kj::byte*>(buffer_.begin());
  const size_t room = buffer_.size() * sizeof(uint64_t);
  return stream_->tryRead(to + have_bytes_, 1, room - have_bytes_)
      .then([this](size_t n) -> kj::Promise<void> {
        if (n == 0) {
          gone_ = true;
          close(have_bytes_ == 0 ? "the other end is gone"
                                 : "the other end is gone in mid-message");
          return kj::READY_NOW;
        }
        if (finishing_) {  // bytes are no longer used, only the end of the stream
          have_bytes_ = 0;
          return read_some();
        }
        have_bytes_ += n;
        const size_t done_bytes = take_messages() * sizeof(uint64_t);
        if (closed_) return kj::READY_NOW;
        if (finishing_) {
          have_bytes_ = 0;
          return read_some();
        }
        have_bytes_ -= done_bytes;
        auto* begin = reinterpret_cast<kj::byte*>(buffer_.begin());
        if (done_bytes != 0) std::memmove(begin, begin + done_bytes, have_bytes_);
        return read_some();
      });
}

size_t ControlLink::take_messages() {
  size_t used = 0;
  for (;;) {
    const size_t have = have_bytes_ / sizeof(uint64_t) - used;
    const uint64_t* at = buffer_.begin() + used;
    const uint64_t want = announced_words(at, have);
    if (want > limit_words_) {
      too_large_ = true;
      close(heard_ ? fmt::format("a message larger than the limit of {} bytes", limit_words_ * 8)
                   : "what is there speaks another protocol");
      return used;
    }
    if (want == 0 || want > have) {
      if (want > buffer_.size()) {  // it fits, because of the limit
        auto larger = kj::heapArray<uint64_t>(2 * limit_words_);
        std::memcpy(larger.begin(), at, have_bytes_ - used * sizeof(uint64_t));
        have_bytes_ -= used * sizeof(uint64_t);
        buffer_ = kj::mv(larger);
        return 0;
      }
      return used;
    }
    on_.message(std::as_bytes(std::span(at, want)));
    if (closed_ || finishing_) return used;
    heard_ = true;
    used += want;
  }
}

}  // namespace grapevine
