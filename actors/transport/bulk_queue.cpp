#include "actors/transport/bulk_queue.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace grapevine {
namespace {

constexpr uint64_t kDirectBytes = 1 << 20;

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
struct BulkQueue::Direct {
  explicit Direct(int of) : fd(::fcntl(of, F_DUPFD_CLOEXEC, 0)) {}
  ~Direct() {
    if (fd >= 0) ::close(fd);
  }
  Direct(const Direct&) = delete;
  const int fd;
};

bool BulkQueue::goes_directly(const OutgoingPayload& frame) const {
  return direct_ != nullptr && !pen_taken_ && !wanted_ && items_.empty() &&
         payload_bytes(frame.header()) <= kDirectBytes &&
         !(lends_ && frame.lease().shared() != nullptr);
}

bool BulkQueue::is_under_way(const OutgoingPayload& frame) const {
  const auto header = whole_frame(frame);
  if (!header || payload_bytes(*header) <= kDirectBytes) return false;
  return taken_ == header ||
         std::any_of(items_.begin(), items_.end(),
                     [&](const OutgoingPayload& item) { return whole_frame(item) == header; });
}

BulkQueue::Pushed BulkQueue::push(OutgoingPayload frame) {
  std::shared_ptr<Direct> direct;
  {
    const Lock lock(mutex_);
    if (closed_ || items_.size() >= limit_ || is_under_way(frame)) return Pushed::refused;
    if (goes_directly(frame)) {
      direct = direct_;
      pen_taken_ = true;
    } else {
      items_.push_back(std::move(frame));
    }
  }
  if (direct != nullptr) return write(std::move(frame), direct);
  wake_();
  return Pushed::queued;
}

BulkQueue::Pushed BulkQueue::write(OutgoingPayload frame, const std::shared_ptr<Direct>& direct) {
  write_now(frame, direct->fd);
  const bool sent = frame.done();
  {
    const Lock lock(mutex_);
    if (direct != direct_) return sent ? Pushed::sent : Pushed::refused;  // the link has ended
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

void BulkQueue::stand(int fd, bool lends) {
  auto direct = fd < 0 ? nullptr : std::make_shared<Direct>(fd);
  const Lock lock(mutex_);
  direct_ = direct != nullptr && direct->fd >= 0 ? std::move(direct) : nullptr;
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
  taken_.reset();
  if (!pen_taken_) return {};
  std::optional<OutgoingPayload> first(std::move(items_.front()));
  items_.pop_front();
  taken_ = whole_frame(*first);
  return first;
}

size_t BulkQueue::clear(bool close) {
  std::deque<OutgoingPayload> items;  // returned without the lock
  std::shared_ptr<Direct> direct;
  const Lock lock(mutex_);
  closed_ = closed_ || close;
  pen_taken_ = wanted_ = false;
  taken_.reset();
  std::swap(direct, direct_);
  std::swap(items, items_);
  return items.size();
}

}  // namespace grapevine
