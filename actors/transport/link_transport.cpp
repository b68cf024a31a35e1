#include "actors/transport/link_transport.hpp"

namespace grapevine {

void LinkTransport::place(std::vector<Place> places) {
  std::unordered_map<uint32_t, std::shared_ptr<const std::string>> nodes;
  std::shared_ptr<const std::string> last;
  for (Place& p : places) {
    if (!last || *last != p.node) last = std::make_shared<const std::string>(std::move(p.node));
    nodes[static_cast<uint32_t>(p.rank)] = last;
  }
  const WriteLock lock(mutex_);
  nodes_ = std::move(nodes);
}

void LinkTransport::set_faults(std::vector<LinkFault> faults) {
  const WriteLock lock(mutex_);
  faults_ =
      faults.empty() ? nullptr : std::make_shared<const std::vector<LinkFault>>(std::move(faults));
}

std::shared_ptr<const std::string> LinkTransport::node_of(uint32_t rank) const {
  const ReadLock lock(mutex_);
  const auto found = nodes_.find(rank);
  return found == nodes_.end() ? nullptr : found->second;
}

FrameFate LinkTransport::fate_of(const FrameHeader& h, double now) {
  const ReadLock lock(mutex_);
  if (!faults_) return {};
  Random random(seed_, h.from, Purpose::link_delay, draws_++);
  FrameFate fate = frame_fate(*faults_, h, now, random);
  if (fate.corrupt && h.count > 0) fate.spoiled_bit = random.bits() % (8 * payload_bytes(h));
  return fate;
}

double LinkTransport::held_s(const FrameFate& fate, const FrameHeader& h, double now) {
  if (fate.bytes_per_second <= 0) return fate.extra_s;
  const Lock lock(narrow_mutex_);
  return fate.extra_s + narrow_.wait_s(h, frame_bytes(h), fate.bytes_per_second, now);
}

uint64_t LinkTransport::send(double now, const FrameHeader& header, Lease payload) {
  const auto node = node_of(header.to);
  if (!node) return 0;
  const FrameFate fate = fate_of(header, now);
  const bool drops = fate.corrupt && (node->empty() || header.count == 0) && !fate.lost;
  lost_ += fate.lost;
  corrupt_ += drops;
  if (fate.lost || drops) return frame_bytes(header);
  bool sent = false;
  for (int copy = fate.twice ? 2 : 1; copy > 0; --copy) {
    const double held = held_s(fate, header, now);
    if (held > 0) hold_until_(now + held, {{header, payload}, fate.spoiled_bit});
    sent = held > 0 || pass_on({{header, payload}, fate.spoiled_bit});
  }
  return sent ? frame_bytes(header) : 0;
}

bool LinkTransport::pass_on(Held held) {
  const FrameHeader header = held.frame.header;
  const auto node = node_of(header.to);
  bool sent = false;
  if (node && node->empty()) {
    deliver_(static_cast<int>(header.to), std::move(held.frame));
    sent = true;
  } else if (node) {
    sent = put_on_link(*node, header, payload_of(header, std::move(held.frame.payload)),
                       held.spoiled_bit);
  }
  refused_ += !sent;
  return sent;
}

bool LinkTransport::put_on_link(const std::string& node, const FrameHeader& header, Payload payload,
                                std::optional<uint64_t> spoiled_bit) {
  if (payload && payload.lease.on_device()) {
    // Weak: copies that a lost device never makes must not keep this object alive.
    const auto go_on = [me = weak_from_this(), node, header, spoiled_bit](Payload copy) {
      const auto self = me.lock();
      if (self) self->refused_ += !self->put_on_link(node, header, std::move(copy), spoiled_bit);
    };
    leave_(node, header, std::move(payload), spoiled_bit.has_value(), go_on);
    return true;
  }
  Links* links = links_;
  return links != nullptr && links->send_frame(node, header, std::move(payload), spoiled_bit);
}

std::shared_ptr<MemoryLine> LinkTransport::lend(const std::string& node, const LentMemory& memory,
                                                LineEvents events) {
  Links* links = links_;
  return links != nullptr ? links->lend(node, memory, std::move(events)) : nullptr;
}

bool LinkTransport::talk(const std::string& node, const NcclTalk& said) {
  Links* links = links_;
  return links != nullptr && links->send(node, said);
}

void LinkTransport::hear(const std::string& node, const NcclTalk& said) {
  if (hear_) return hear_(node, said);
  if (!std::holds_alternative<NcclEnd>(said.what)) talk(node, {said.edge, NcclEnd{}});
}

void LinkTransport::receive(const std::string& node, Frame frame) {
  const auto sender = node_of(frame.header.from), receiver = node_of(frame.header.to);
  const bool known = sender && *sender == node, here = receiver && receiver->empty();
  strangers_ += !known;
  misdirected_ += known && !here;
  if (!known || !here) return;
  const int to = static_cast<int>(frame.header.to);
  Payload payload = land_ ? payload_of(frame.header, frame.payload) : Payload();
  if (!payload || payload.lease.on_device()) return deliver_(to, std::move(frame));
  land_(std::move(payload), [me = weak_from_this(), to, h = frame.header](Payload copy) {
    if (const auto self = me.lock()) self->deliver_(to, {h, std::move(copy.lease)});
  });
}

LinkTransport::Counts LinkTransport::counts() const {
  return {lost_, corrupt_, refused_, strangers_, misdirected_};
}

}  // namespace grapevine
