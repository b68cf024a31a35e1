// Payloads in shared memory: lent by one end of a bulk link, read in place by the other.
#include "actors/transport/bulk_link.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostMemories = 256;  // of each end
constexpr size_t kMostReading = 4096;  // payloads of the other end; an honest one has fewer slots

}  // namespace

bool BulkLink::lends(const OutgoingPayload& payload) const {
  const SharedMemory* memory = payload.lease().shared();
  if (unix_socket_ == nullptr || memory == nullptr || payload.is_spoiled()) return false;
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

void BulkLink::take_memory() {
  const auto fd = kj::mv(passed_);
  if (mapped_.size() >= kMostMemories)
    return refuse(LinkRefusal::memory, "too many memories on the bulk link");
  auto memory = SharedMemory::map(fd, options_.max_payload_bytes);
  if (!memory) return refuse(LinkRefusal::memory, memory.error().message);
  mapped_[in_.value] = *std::move(memory);
}

void BulkLink::read_in_place(const BulkHeader& header) {
  const auto found = mapped_.find(in_.value);
  if (found == mapped_.end() || payload_bytes(header) > found->second->bytes())
    return refuse(LinkRefusal::in_place, "a payload outside of the memory it is said to lie in");
  if (reading_ >= kMostReading) {
    ++peer_->counters.discarded;
    return release(in_.value);
  }
  ++reading_;
  peer_->counters.received(header);
  peer_->counters.bulk = BulkPath::shared_memory;
  // The lease may be the last to go: it holds the mapping, and asks whether the link still stands.
  const auto let_go = [this, inbox = loop_.inbox(), alive = std::weak_ptr<void>(alive_),
                       number = in_.value, memory = found->second] {
    inbox->post([this, alive, number] {
      if (alive.expired()) return;
      --reading_;
      release(number);
    });
  };
  const ConstVec payload = std::visit(
      [&](const auto& one) {
        return ConstVec(found->second->data(), static_cast<size_t>(one.count), one.dtype);
      },
      header);
  arrived(header, Lease::of(payload, let_go));
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
  if (found == lent_.end()) return refuse(LinkRefusal::release, "a release of what was not lent");
  lent_.erase(found);
}

}  // namespace grapevine
