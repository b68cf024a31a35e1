#include "actors/transport/outgoing_payload.hpp"

#include <algorithm>

namespace grapevine {
namespace {

// For one system call; between two calls a loop serves its other sockets.
constexpr size_t kSliceBytes = 1 << 18;

}  // namespace

OutgoingPayload::OutgoingPayload(BulkHeader header, const Payload& payload,
                                 std::optional<uint64_t> spoiled_bit)
    : header_(std::move(header)),
      payload_(payload),
      total_(sizeof record_ + payload_bytes(header_) + sizeof told_sum_) {
  record_.kind = std::holds_alternative<Parcel>(header_) ? BulkRecord::parcel : BulkRecord::frame;
  record_.header = std::visit([](const auto& one) { return encode(one); }, header_);
  sum_.add(&record_.header, sizeof record_.header);
  if (!spoiled_bit) return;
  const auto* bytes = static_cast<const std::byte*>(payload_.vec().data);
  summed_ = payload_bytes(header_);
  sum_.add(bytes, summed_);
  spoiled_.assign(bytes, bytes + summed_);
  spoiled_[*spoiled_bit / 8] ^= std::byte{1} << *spoiled_bit % 8;
}

std::span<const iovec> OutgoingPayload::next() {
  const size_t size = total_ - sizeof record_ - sizeof told_sum_;
  const size_t at = std::clamp(sent_, sizeof record_, sizeof record_ + size) - sizeof record_;
  const auto* bytes =
      is_spoiled() ? spoiled_.data() : static_cast<const std::byte*>(payload_.vec().data);
  if (at == summed_) {
    const size_t now = std::min(size - summed_, kSliceBytes);
    sum_.add(bytes + summed_, now);
    summed_ += now;
  }
  size_t count = 0;
  const auto add = [&](const void* data, size_t length) {
    if (length > 0) pieces_[count++] = {const_cast<void*>(data), length};
  };
  if (sent_ < sizeof record_)
    add(reinterpret_cast<const std::byte*>(&record_) + sent_, sizeof record_ - sent_);
  add(bytes + at, summed_ - at);
  if (summed_ == size) {
    told_sum_ = sum_.value();
    const size_t told = sent_ > sizeof record_ + size ? sent_ - sizeof record_ - size : 0;
    add(reinterpret_cast<const std::byte*>(&told_sum_) + told, sizeof told_sum_ - told);
  }
  return {pieces_.data(), count};
}

}  // namespace grapevine
