#include "actors/transport/bulk_link.hpp"

#include <fcntl.h>
#include <kj/debug.h>

#include <algorithm>
#include <cstring>

#include "actors/transport/socket_line.hpp"
#include "actors/transport/streams.hpp"

namespace grapevine {

namespace {

constexpr int kChecks = 4;
constexpr size_t kReadBytes = 1 << 20;  // in one read; then the loop serves its other sockets
constexpr size_t kScratchBytes = 256 << 10;

constexpr size_t kMostMemories = 256;   // of each end
constexpr size_t kLentAtOnce = 2;       // payloads, per process
constexpr int kKeptAtMost = 3;          // links that a process ended while it held a loan
constexpr size_t kCopyBytes = 4 << 20;  // in one turn of the loop

}  // namespace

kj::Promise<void> write_record(kj::AsyncIoStream& stream, const BulkRecord& mine) {
  return stream.write(&mine, sizeof mine);
}

kj::Promise<void> read_hello(kj::AsyncIoStream& stream, BulkRecord& theirs) {
  return stream.read(&theirs, sizeof theirs).then([&theirs]() -> kj::Promise<void> {
    if (theirs.magic != BulkRecord::kMagic || theirs.kind != BulkRecord::hello)
      return KJ_EXCEPTION(FAILED, "not a bulk link's hello");
    return kj::READY_NOW;
  });
}

BulkLink::BulkLink(BulkStream made, std::shared_ptr<Peer> peer, Loop& loop,
                   const LinksOptions& options, const LinkEvents& events, RefusalCounters& refusals,
                   LentInAll& lent_in_all, Line line, Closed closed)
    : stream_(kj::mv(made.stream)),
      unix_socket_(made.unix_socket),
      over_tcp_(made.path == BulkPath::tcp || made.path == BulkPath::tls),
      peer_(std::move(peer)),
      loop_(loop),
      options_(options),
      events_(events),
      refusals_(refusals),
      on_line_(std::move(line)),
      on_closed_(std::move(closed)),
      lent_in_all_(lent_in_all) {
  peer_->counters.bulk = made.path;
  int socket = -1;
  KJ_IF_MAYBE (fd, stream_->getFd()) {
    socket = *fd;
  }
  peer_->bulk->stand(socket, made.path != BulkPath::tls, unix_socket_ != nullptr);
}

BulkLink::~BulkLink() {
  for (auto& [number, lease] : lent_)
    lease.retire();  // the other end may still read it
  lent_in_all_.payloads -= lent_.size();
  if (!lent_.empty()) ++lent_in_all_.kept_by[id_of(peer_->hello.key)];
}

void BulkLink::start() {
  reader_ = kj::evalLater([this] {
              return read_record();
            }).eagerlyEvaluate([this](kj::Exception&& e) { close(reason_of(e)); });
  flush();
}

void BulkLink::flush() {
  if (writing_ || closed_ || !peer_->bulk->take_pen()) return;
  writing_ = true;
  writer_ = kj::evalLater([this] {
              return write_all();
            }).eagerlyEvaluate([this](kj::Exception&& e) { close(reason_of(e)); });
}

void BulkLink::close(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  on_closed_(reason);
}

void BulkLink::refuse(LinkRefusal why, const std::string& reason) {
  refusals_.count(why);
  close(reason);
}

/// Ends the link if nothing moved over several checks. It does not use the clock: the sockets are
/// served between two checks, so after a stop of this process no peer is blamed. Acknowledged bytes
/// of a long write are progress, so a slow network does not count as a stopped peer.
kj::Promise<void> BulkLink::standstill(Way way, uint64_t acknowledged, int checks) {
  if (checks == kChecks) return KJ_EXCEPTION(OVERLOADED, "a payload stood still");
  return loop_.timer()
      .afterDelay(seconds(options_.stall_s / kChecks))
      .then([this, way, acknowledged, checks]() {
        const uint64_t now = way == Way::out && over_tcp_ ? acknowledged_bytes(*stream_) : 0;
        return standstill(way, now, now == acknowledged ? checks + 1 : 0);
      });
}

kj::Promise<void> BulkLink::write_all() {
  if (closed_) return kj::READY_NOW;
  if (!releases_.empty()) return write_releases();
  if (!lines_.empty()) return write_line();
  sending_ = peer_->bulk->take();
  writing_ = sending_.has_value();
  if (!writing_) return kj::READY_NOW;
  if (lends(*sending_)) return lend();
  return write_payload().then([this] {
    count_sent();
    return write_all();
  });
}

kj::Promise<void> BulkLink::write_payload() {
  if (sending_->done()) return kj::READY_NOW;
  size_t count = 0, bytes = 0;
  for (const iovec& piece : sending_->next()) {
    pieces_[count++] = {static_cast<const kj::byte*>(piece.iov_base), piece.iov_len};
    bytes += piece.iov_len;
  }
  return in_time(stream_->write(kj::arrayPtr(pieces_, count)), Way::out).then([this, bytes] {
    sending_->advance(bytes);
    return write_payload();
  });
}

void BulkLink::count_sent() {
  peer_->counters.sent(sending_->header());
  sending_.reset();
}

kj::Promise<size_t> BulkLink::read_some(void* to, size_t least, size_t most) {
  if (unix_socket_ == nullptr) return stream_->tryRead(to, least, most);
  return unix_socket_->tryReadWithFds(to, least, most, &passed_, 1)
      .then([](kj::AsyncCapabilityStream::ReadResult read) { return read.byteCount; });
}

kj::Promise<void> BulkLink::read_record() {
  auto* to = reinterpret_cast<kj::byte*>(&in_);
  return read_some(to, 1, sizeof in_).then([this, to](size_t n) -> kj::Promise<void> {
    if (n == sizeof in_) return take_record();
    if (n == 0) {
      close("the other end closed the bulk link");
      return kj::READY_NOW;
    }
    return in_time(stream_->read(to + n, sizeof in_ - n), Way::in).then([this] {
      return take_record();
    });
  });
}

kj::Promise<void> BulkLink::take_record() {
  if (closed_) return kj::READY_NOW;
  if (in_.magic != BulkRecord::kMagic || in_.kind < BulkRecord::frame ||
      in_.kind > (unix_socket_ != nullptr ? BulkRecord::line : BulkRecord::parcel)) {
    refuse(LinkRefusal::record, "a malformed record on the bulk link");
    return kj::READY_NOW;
  }
  kj::Promise<void> taken = kj::READY_NOW;
  if (in_.kind == BulkRecord::memory) {
    take_memory();
  } else if (in_.kind == BulkRecord::release) {
    released(in_.value);
  } else if (in_.kind == BulkRecord::line) {
    const auto fd = kj::mv(passed_);
    Descriptor line(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!is_line(line.fd()))
      refuse(LinkRefusal::memory, "a passed descriptor that is no socket for memory");
    else
      on_line_(std::move(line));
  } else {
    const auto header = header_of_record();
    if (!header) {
      refuse(LinkRefusal::header, header.error().message);
    } else if (payload_bytes(*header) == 0) {  // it belongs on the control link
      refuse(LinkRefusal::record, "a frame without a payload on the bulk link");
    } else if (in_.kind == BulkRecord::frame_in_place || in_.kind == BulkRecord::parcel_in_place) {
      taken = copy_in_place(*header);
    } else {
      taken = read_payload(*header);
    }
  }
  return taken.then([this]() -> kj::Promise<void> {
    return closed_ ? kj::Promise<void>(kj::READY_NOW) : read_record();
  });
}

Result<BulkHeader> BulkLink::header_of_record() const {
  if (in_.kind == BulkRecord::parcel || in_.kind == BulkRecord::parcel_in_place) {
    const auto parcel = decode_parcel(in_.header, options_.max_payload_bytes);
    return parcel ? Result<BulkHeader>(BulkHeader(*parcel)) : parcel.error();
  }
  const auto header = decode(in_.header, options_.max_payload_bytes);
  return header ? Result<BulkHeader>(BulkHeader(*header)) : header.error();
}

kj::Promise<void> BulkLink::read_payload(const BulkHeader& header) {
  const uint64_t size = payload_bytes(header);
  receiving_ = buffer_for(header);
  if (!receiving_ || receiving_.vec().bytes() < size) {
    receiving_ = {};
    ++peer_->counters.discarded;
    return discard(size + sizeof heard_sum_);
  }
  sum_in_ = {};
  sum_in_.add(&in_.header, sizeof in_.header);
  return read_rest({static_cast<kj::byte*>(receiving_.writable().data), size})
      .then([this] { return in_time(stream_->read(&heard_sum_, sizeof heard_sum_), Way::in); })
      .then([this, header] {
        Lease payload = std::move(receiving_);
        if (heard_sum_ != sum_in_.value()) {
          ++peer_->counters.corrupt;
          return;
        }
        peer_->counters.received(header);
        arrived(header, std::move(payload));
      });
}

Lease BulkLink::buffer_for(const BulkHeader& header) const {
  if (const auto* parcel = std::get_if<Parcel>(&header))
    return events_.parcel_buffer ? events_.parcel_buffer(peer_->hello.node, *parcel) : Lease();
  return events_.buffer ? events_.buffer(std::get<FrameHeader>(header)) : Lease();
}

void BulkLink::arrived(const BulkHeader& header, Lease payload) const {
  const std::string& node = peer_->hello.node;
  if (const auto* parcel = std::get_if<Parcel>(&header)) {
    const auto count = static_cast<size_t>(parcel->count);
    if (events_.parcel)
      events_.parcel(node, *parcel, {std::move(payload), parcel->dtype, count, 0});
  } else if (events_.frame) {
    events_.frame(node, {std::get<FrameHeader>(header), std::move(payload)});
  }
}

kj::Promise<void> BulkLink::read_rest(kj::ArrayPtr<kj::byte> rest) {
  if (rest.size() == 0) return kj::READY_NOW;
  const size_t now = kj::min(rest.size(), kReadBytes);
  // Any progress counts: a slow network is no stopped peer.
  return in_time(stream_->tryRead(rest.begin(), 1, now), Way::in)
      .then([this, rest](size_t n) mutable -> kj::Promise<void> {
        if (n == 0) return KJ_EXCEPTION(DISCONNECTED, "the other end is gone in mid-payload");
        sum_in_.add(rest.begin(), n);
        return read_rest(rest.slice(n, rest.size()));
      });
}

kj::Promise<void> BulkLink::discard(uint64_t bytes) {
  if (bytes == 0) return kj::READY_NOW;
  if (scratch_ == nullptr) scratch_ = kj::heapArray<kj::byte>(kScratchBytes);
  const size_t now = kj::min(bytes, scratch_.size());
  return in_time(stream_->tryRead(scratch_.begin(), 1, now), Way::in)
      .then([this, bytes](size_t n) -> kj::Promise<void> {
        if (n == 0) return KJ_EXCEPTION(DISCONNECTED, "the other end is gone in mid-payload");
        return discard(bytes - n);
      });
}

// --- payloads in shared memory: one end lends them, the other reads them in place

bool BulkLink::lends(const OutgoingPayload& payload) const {
  const SharedMemory* memory = payload.lease().shared();
  if (unix_socket_ == nullptr || memory == nullptr || payload.is_spoiled()) return false;
  if (lent_.size() >= kLentAtOnce || lent_in_all_.payloads >= options_.lent_payloads) return false;
  const auto kept = lent_in_all_.kept_by.find(id_of(peer_->hello.key));
  if (kept != lent_in_all_.kept_by.end() && kept->second >= kKeptAtMost) return false;
  return told_.size() < kMostMemories || told_.count(memory->number()) != 0;
}

kj::Promise<void> BulkLink::lend() {
  const SharedMemory& memory = *sending_->lease().shared();
  lending_ = {};
  lending_.kind = std::holds_alternative<Parcel>(sending_->header()) ? BulkRecord::parcel_in_place
                                                                     : BulkRecord::frame_in_place;
  lending_.header = std::visit([](const auto& one) { return encode(one); }, sending_->header());
  lending_.value = memory.number();
  kj::Promise<void> told = kj::READY_NOW;
  if (told_.insert(memory.number()).second) {
    telling_ = {};
    telling_.kind = BulkRecord::memory;
    telling_.value = memory.number();
    passing_ = memory.fd();
    told = unix_socket_->writeWithFds(
        kj::arrayPtr(reinterpret_cast<const kj::byte*>(&telling_), sizeof telling_), nullptr,
        kj::arrayPtr(&passing_, 1));
  }
  lent_.emplace(memory.number(), sending_->lease());
  ++lent_in_all_.payloads;
  return in_time(told.then([this] { return stream_->write(&lending_, sizeof lending_); }), Way::out)
      .then([this] {
        peer_->counters.in_place_bytes_sent += payload_bytes(sending_->header());
        peer_->counters.bulk = BulkPath::shared_memory;
        count_sent();
        return write_all();
      });
}

kj::Promise<void> BulkLink::write_releases() {
  std::swap(releases_, releasing_);
  return in_time(stream_->write(releasing_.data(), releasing_.size() * sizeof(BulkRecord)),
                 Way::out)
      .then([this] {
        releasing_.clear();
        return write_all();
      });
}

void BulkLink::pass(Descriptor line) {
  if (unix_socket_ == nullptr || closed_) return;
  lines_.push_back(std::move(line));
  flush();
}

kj::Promise<void> BulkLink::write_line() {
  telling_ = {};
  telling_.kind = BulkRecord::line;
  passing_ = lines_.front().fd();
  auto passed = unix_socket_->writeWithFds(
      kj::arrayPtr(reinterpret_cast<const kj::byte*>(&telling_), sizeof telling_), nullptr,
      kj::arrayPtr(&passing_, 1));
  return in_time(kj::mv(passed), Way::out).then([this] {
    lines_.erase(lines_.begin());
    return write_all();
  });
}

void BulkLink::take_memory() {
  const auto fd = kj::mv(passed_);
  if (mapped_.size() >= kMostMemories)
    return refuse(LinkRefusal::memory, "too many memories on the bulk link");
  auto memory = SharedMemory::map(fd, options_.max_payload_bytes);
  if (!memory) return refuse(LinkRefusal::memory, memory.error().message);
  mapped_[in_.value] = *std::move(memory);
}

kj::Promise<void> BulkLink::copy_in_place(const BulkHeader& header) {
  const auto found = mapped_.find(in_.value);
  const uint64_t size = payload_bytes(header);
  if (found == mapped_.end() || size > found->second->bytes()) {
    refuse(LinkRefusal::in_place, "a payload beyond the end of its memory");
    return kj::READY_NOW;
  }
  if (const auto* frame = std::get_if<FrameHeader>(&header);
      frame != nullptr && options_.frames_in_place) {
    hand_on(*frame, found->second);
    return kj::READY_NOW;
  }
  receiving_ = buffer_for(header);
  if (!receiving_ || receiving_.vec().bytes() < size) {
    receiving_ = {};
    ++peer_->counters.discarded;
    release(in_.value);
    return kj::READY_NOW;
  }
  return copy(found->second, 0, size).then([this, header, number = in_.value] {
    release(number);
    peer_->counters.received(header);
    peer_->counters.bulk = BulkPath::shared_memory;
    arrived(header, std::move(receiving_));
  });
}

/// A peer that keeps to the protocol lends no more than kLentAtOnce, so no more are in use.
void BulkLink::hand_on(const FrameHeader& header, std::shared_ptr<const SharedMemory> memory) {
  const uint64_t number = in_.value;
  if (handed_on_ == kLentAtOnce) {
    ++peer_->counters.discarded;
    return release(number);
  }
  ++handed_on_;
  // On any thread, also after the end of this link or of the loop.
  auto released = [this, number, inbox = loop_.inbox(), alive = std::weak_ptr<void>(alive_)] {
    inbox->post([this, number, alive] {
      if (alive.expired()) return;
      --handed_on_;
      release(number);
    });
  };
  peer_->counters.received(header);
  peer_->counters.bulk = BulkPath::shared_memory;
  arrived(header, Lease::of(std::move(memory), payload_bytes(header), std::move(released)));
}

kj::Promise<void> BulkLink::copy(std::shared_ptr<const SharedMemory> memory, uint64_t from,
                                 uint64_t size) {
  const uint64_t now = std::min<uint64_t>(size - from, kCopyBytes);
  std::memcpy(static_cast<std::byte*>(receiving_.writable().data) + from,
              static_cast<const std::byte*>(memory->data()) + from, now);
  if (from + now == size) return kj::READY_NOW;
  return kj::evalLater([this, memory = std::move(memory), next = from + now, size]() mutable {
    return copy(std::move(memory), next, size);
  });
}

void BulkLink::release(uint64_t memory) {
  BulkRecord record;
  record.kind = BulkRecord::release;
  record.value = memory;
  releases_.push_back(record);
  flush();
}

void BulkLink::released(uint64_t number) {
  const auto found = lent_.find(number);
  if (found == lent_.end())
    return refuse(LinkRefusal::release, "a release of memory that was not lent");
  lent_.erase(found);
  --lent_in_all_.payloads;
}

}  // namespace grapevine
