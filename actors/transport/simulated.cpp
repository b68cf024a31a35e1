#include "actors/transport/simulated.hpp"

#include <bit>
#include <cstring>

namespace grapevine {

SimulatedTransport::SimulatedTransport(const LinkModel& model, std::vector<LinkFault> faults,
                                       uint64_t seed, int ranks, DeliverAt deliver)
    : model_(model),
      faults_(std::move(faults)),
      seed_(seed),
      sent_(static_cast<size_t>(ranks), 0),
      deliver_(std::move(deliver)) {}

void SimulatedTransport::fold(const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  uint64_t word = 0, hash = hash_;
  const size_t whole = size - size % sizeof word;
  for (size_t at = 0; at < whole; at += sizeof word) {
    std::memcpy(&word, bytes + at, sizeof word);
    hash = after(hash, word);
  }
  hash_ = hash;
  if (whole == size) return;
  word = 0;
  std::memcpy(&word, bytes + whole, size - whole);
  fold(word);
}

void SimulatedTransport::log(double now, const FrameHeader& h, const Lease& payload) {
  fold(std::bit_cast<uint64_t>(now));
  const HeaderBytes header = encode(h);
  static_assert(sizeof header % sizeof(uint64_t) == 0);
  fold(header.data(), sizeof header);
  if (!payload || payload.on_device()) return;  // the host cannot read it there
  fold(payload.vec().data, payload_bytes(h));
}

uint64_t SimulatedTransport::send(double now, const FrameHeader& h, Lease payload) {
  const auto to = static_cast<int>(h.to);
  const bool bulk = h.count > 0;
  log(now, h, payload);

  Random random(seed_, h.from, Purpose::link_delay, sent_[h.from]++);
  const FrameFate fate = frame_fate(faults_, h, now, random);
  lost_ += fate.lost;
  corrupt_ += fate.corrupt && !fate.lost;
  auto arrives_after = [&] {
    double delay = fate.extra_s + narrow_.wait_s(h, frame_bytes(h), fate.bytes_per_second, now);
    if (model_.latency_s > 0)
      delay += fate.factor * model_.latency_s * (1 + model_.jitter * random.uniform(-1, 1));
    if (!bulk) return delay;
    double transfer = model_.transfer_s;
    if (model_.bandwidth > 0) transfer += static_cast<double>(frame_bytes(h)) / model_.bandwidth;
    return delay + (transfer > 0 ? fate.factor * transfer * (1 + 0.1 * random.uniform(-1, 1)) : 0);
  };
  if (fate.corrupt) return frame_bytes(h);
  if (!fate.lost) deliver_(now + arrives_after(), to, {h, payload});
  if (fate.twice) deliver_(now + arrives_after(), to, {h, payload});
  return frame_bytes(h);
}

}  // namespace grapevine
