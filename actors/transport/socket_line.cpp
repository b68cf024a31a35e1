#include "actors/transport/socket_line.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "actors/transport/passed_descriptors.hpp"

namespace grapevine {

struct LineRecord {
  static constexpr uint32_t kMagic = 0x314c5647;  // "GVL1"
  static constexpr uint16_t kOffer = 0;           // other kinds are a LineNote::Kind

  uint32_t magic = kMagic;
  uint16_t kind = kOffer;
  uint16_t unused = 0;
  uint32_t slots = 0;     // offer: their number; else the slot
  uint32_t unused_2 = 0;  // padding
  uint64_t value = 0;     // offer: bytes of a slot; else the number of the loan
  HeaderBytes header{};   // of a frame
};
static_assert(sizeof(LineRecord) == 24 + kHeaderBytes);

namespace {

constexpr uint32_t kMostSlots = 1 << 20;

bool write_record(int socket, const LineRecord& record, std::span<const int> passed = {}) {
  const iovec piece{const_cast<LineRecord*>(&record), sizeof record};
  return send_passing(socket, {&piece, 1}, passed, MSG_DONTWAIT) == sizeof record;
}

/// The bytes of a record, more than its size if it is too long; 0: the end; -1: there is no record.
ssize_t receive_record(int socket, LineRecord& record, Descriptor& passed) {
  const ssize_t bytes =
      receive_passed(socket, &record, sizeof record, passed, MSG_DONTWAIT | MSG_TRUNC);
  return bytes >= 0 ? bytes : errno == EAGAIN || errno == EWOULDBLOCK ? -1 : 0;
}

class SocketLine final : public MemoryLine {
 public:
  explicit SocketLine(std::shared_ptr<LineSocket> socket) : socket_(std::move(socket)) {}
  ~SocketLine() override { socket_->close(); }
  bool send(const LineNote& note) override { return socket_->send(note); }
  void finish() override { socket_->finish(); }

 private:
  const std::shared_ptr<LineSocket> socket_;
};

}  // namespace

// --- writers

bool LineSocket::offer(const LentMemory& memory) {
  LineRecord record;
  record.slots = memory.slots;
  record.value = memory.slot_bytes;
  const int passed = memory.descriptor->fd();
  return write_record(socket_.fd(), record, {&passed, 1});
}

bool LineSocket::send(const LineNote& note) {
  LineRecord record;
  record.kind = static_cast<uint16_t>(note.kind);
  record.slots = note.lent.slot;
  record.value = note.lent.number;
  if (note.kind == LineNote::Kind::released) --out_;  // before the other end knows and lends again
  if (note.kind == LineNote::Kind::frame) {
    if (++out_ > MemoryLine::kMostLent) return --out_, false;
    record.header = encode(note.header);
  }
  if (!write_record(socket_.fd(), record)) {
    if (note.kind == LineNote::Kind::frame) --out_;
    return false;
  }
  if (note.kind == LineNote::Kind::frame) {
    peer_->counters.sent(note.header);
    peer_->counters.in_place_bytes_sent += payload_bytes(note.header);
  }
  return true;
}

void LineSocket::finish() { ::shutdown(socket_.fd(), SHUT_WR); }
void LineSocket::close() { ::shutdown(socket_.fd(), SHUT_RDWR); }

bool LineSocket::counts(LineNote::Kind kind) {
  if (kind == LineNote::Kind::frame) return ++out_ <= MemoryLine::kMostLent;
  if (kind != LineNote::Kind::released) return true;
  for (size_t out = out_; out > 0;)
    if (out_.compare_exchange_weak(out, out - 1)) return true;
  return false;
}

std::shared_ptr<MemoryLine> handle_of(std::shared_ptr<LineSocket> socket) {
  return std::make_shared<SocketLine>(std::move(socket));
}

LinePair make_line_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

bool is_line(int fd) {
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  return option(SO_DOMAIN) == AF_UNIX && option(SO_TYPE) == SOCK_SEQPACKET;
}

// --- the reader

LineReader::LineReader(Loop& loop, std::shared_ptr<LineSocket> socket, uint64_t most_bytes,
                       RefusalCounters& refusals, LineEvents events, Lent lent)
    : socket_(std::move(socket)),
      most_bytes_(most_bytes),
      refusals_(refusals),
      events_(std::move(events)),
      lent_(std::move(lent)),
      observer_(loop.io().unixEventPort, socket_->fd(),
                kj::UnixEventPort::FdObserver::OBSERVE_READ_WRITE) {}

kj::Promise<void> LineReader::run() {
  constexpr int kTurn = 64;  // records; then the loop serves its other sockets
  for (int k = 0; k < kTurn; ++k) {
    const Read read = read_one();
    if (read == Read::later) return observer_.whenBecomesReadable().then([this] { return run(); });
    if (read == Read::ended) {
      if (events_.ended) events_.ended();
      return kj::READY_NOW;
    }
  }
  return kj::evalLater([this] { return run(); });
}

LineReader::Read LineReader::read_one() {
  LineRecord record;
  Descriptor passed;
  const ssize_t bytes = receive_record(socket_->fd(), record, passed);
  if (bytes <= 0) return bytes == 0 ? Read::ended : Read::later;
  if (errs_) return Read::one;
  if (bytes != sizeof record || record.magic != LineRecord::kMagic)
    return refuse(LinkRefusal::record);
  const bool offers = socket_->end() == LineSocket::End::borrower && slot_bytes_ == 0;
  return offers ? took_offer(record, std::move(passed)) : took_note(record);
}

LineReader::Read LineReader::took_offer(const LineRecord& record, Descriptor passed) {
  const bool is_good = record.kind == LineRecord::kOffer && passed && record.slots > 0 &&
                       record.slots <= kMostSlots && record.value > 0 &&
                       record.value <= most_bytes_;
  if (!is_good) return refuse(LinkRefusal::memory);
  slot_bytes_ = record.value;
  if (!lent_) return Read::ended;
  events_ =
      lent_(socket_->peer().hello.node,
            {std::make_shared<const Descriptor>(std::move(passed)), record.slots, slot_bytes_},
            handle_of(socket_));
  return events_.note ? Read::one : Read::ended;
}

LineReader::Read LineReader::took_note(const LineRecord& record) {
  using Kind = LineNote::Kind;
  LineNote note{static_cast<Kind>(record.kind), {}, {record.slots, record.value}};
  const bool is_frame = note.kind == Kind::frame;
  if (record.kind == LineRecord::kOffer || note.kind > Kind::released ||
      is_frame != (socket_->end() == LineSocket::End::borrower))
    return refuse(LinkRefusal::record);
  if (is_frame) {
    const auto header = decode(record.header, slot_bytes_);
    if (!header || header->count == 0) return refuse(LinkRefusal::header);
    note.header = *header;
  }
  if (!socket_->counts(note.kind))
    return refuse(is_frame ? LinkRefusal::in_place : LinkRefusal::release);
  if (is_frame) socket_->peer().counters.received(note.header);
  events_.note(note);
  return Read::one;
}

LineReader::Read LineReader::refuse(LinkRefusal why) {
  refusals_.count(why);
  if (socket_->end() == LineSocket::End::borrower) return Read::ended;
  errs_ = true;
  socket_->finish();
  events_.note({LineNote::Kind::refused, {}, {}});
  return Read::one;
}

}  // namespace grapevine
