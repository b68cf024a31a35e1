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

void SimulatedTransport::log(double now, const FrameHeader& h, const Lease& payload) {
  fold(std::bit_cast<uint64_t>(now));
  const HeaderBytes header = encode(h);
  for (size_t at = 0; at + 8 <= header.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, header.data() + at, 8);
    fold(word);
  }
  if (!payload || payload.on_device()) return;  // the host cannot see it there
  const auto* bytes = static_cast<const char*>(payload.vec().data);
  const uint64_t size = payload_bytes(h);
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
    fold(word);
  }
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
