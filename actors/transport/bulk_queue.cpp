#include "actors/transport/bulk_queue.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "kernels/base/descriptor.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kDirectBytes = 1 << 20;

/// Bytes that this socket has taken and that the other end's kernel does not have yet.
uint64_t unacknowledged(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

/// No value: a parcel, or a frame that does not arrive whole.
std::optional<FrameHeader> whole_frame(const OutgoingPayload& payload) {
  const auto* header = std::get_if<FrameHeader>(&payload.header());
  return header == nullptr || payload.is_spoiled() ? std::nullopt : std::optional(*header);
}

/// Writes as much as the socket takes now. The loop notices errors by itself.
void write_now(OutgoingPayload& frame, int fd) {
  while (!frame.done()) {
    const auto pieces = frame.next();
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    const ssize_t n = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0) return;
    frame.advance(static_cast<size_t>(n));
  }
}

}  // namespace

/// A copy of the descriptor: valid as long as a thread writes, even if the link ends.
struct BulkQueue::Socket {
  Socket(int of, bool plain) : copy(::fcntl(of, F_DUPFD_CLOEXEC, 0)), plain(plain) {}
  const Descriptor copy;
  const bool plain;
};

bool BulkQueue::goes_directly(const OutgoingPayload& frame) const {
  return socket_ != nullptr && socket_->plain && !pen_taken_ && !wanted_ && items_.empty() &&
         payload_bytes(frame.header()) <= kDirectBytes &&
         !(lends_ && frame.lease().shared() != nullptr);
}

bool BulkQueue::is_under_way(const OutgoingPayload& frame) {
  const auto header = whole_frame(frame);
  if (!header || payload_bytes(*header) <= kDirectBytes) return false;
  forget_arrived();
  return taken_ == header ||
         std::any_of(sent_.begin(), sent_.end(),
                     [&](const Sent& sent) { return sent.header == header; }) ||
         std::any_of(items_.begin(), items_.end(),
                     [&](const OutgoingPayload& item) { return whole_frame(item) == header; });
}

/// With TLS the socket has a few bytes more than are counted here.
void BulkQueue::forget_arrived() {
  const uint64_t bytes = socket_ != nullptr ? unacknowledged(socket_->copy.fd()) : 0;
  while (!sent_.empty() && sent_.front().behind >= bytes)
    sent_.pop_front();
}

void BulkQueue::count_behind(uint64_t bytes) {
  for (Sent& sent : sent_)
    sent.behind += bytes;
}

BulkQueue::Pushed BulkQueue::push(OutgoingPayload frame) {
  std::shared_ptr<Socket> direct;
  {
    const Lock lock(mutex_);
    if (closed_ || items_.size() >= limit_ || is_under_way(frame)) return Pushed::refused;
    if (goes_directly(frame)) {
      direct = socket_;
      pen_taken_ = true;
    } else {
      items_.push_back(std::move(frame));
    }
  }
  if (direct != nullptr) return write(std::move(frame), direct);
  wake_();
  return Pushed::queued;
}

BulkQueue::Pushed BulkQueue::write(OutgoingPayload frame, const std::shared_ptr<Socket>& direct) {
  write_now(frame, direct->copy.fd());
  const bool sent = frame.done();
  {
    const Lock lock(mutex_);
    if (sent) count_behind(payload_bytes(frame.header()));
    if (direct != socket_) return sent ? Pushed::sent : Pushed::refused;  // the link has ended
    if (!sent) items_.push_front(std::move(frame));
    pen_taken_ = false;
    if (items_.empty() && !wanted_) return Pushed::sent;
  }
  wake_();
  return sent ? Pushed::sent : Pushed::queued;
}

bool BulkQueue::empty() const {
  const Lock lock(mutex_);
  return items_.empty();
}

void BulkQueue::stand(int fd, bool plain, bool lends) {
  auto socket = fd < 0 ? nullptr : std::make_shared<Socket>(fd, plain);
  const Lock lock(mutex_);
  socket_ = socket != nullptr && socket->copy ? std::move(socket) : nullptr;
  lends_ = lends;
}

bool BulkQueue::take_pen() {
  const Lock lock(mutex_);
  wanted_ = std::exchange(pen_taken_, true);
  return !wanted_;
}

std::optional<OutgoingPayload> BulkQueue::take() {
  const Lock lock(mutex_);
  pen_taken_ = !items_.empty();
  count_behind(std::exchange(taken_bytes_, 0));
  if (taken_ && payload_bytes(*taken_) > kDirectBytes) sent_.push_back({*taken_});
  forget_arrived();
  taken_.reset();
  if (!pen_taken_) return {};
  std::optional<OutgoingPayload> first(std::move(items_.front()));
  items_.pop_front();
  taken_ = whole_frame(*first);
  taken_bytes_ = payload_bytes(first->header());
  return first;
}

size_t BulkQueue::clear(bool close) {
  std::deque<OutgoingPayload> items;  // returned without the lock
  std::shared_ptr<Socket> socket;
  const Lock lock(mutex_);
  closed_ = closed_ || close;
  pen_taken_ = wanted_ = false;
  taken_.reset();
  taken_bytes_ = 0;
  sent_.clear();
  std::swap(socket, socket_);
  std::swap(items, items_);
  return items.size();
}

}  // namespace grapevine
