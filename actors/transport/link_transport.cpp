#include "actors/transport/link_transport.hpp"

namespace grapevine {

void LinkTransport::place(std::vector<Place> places) {
  std::vector<std::shared_ptr<const std::string>> nodes;
  for (Place& p : places) {
    const auto rank = static_cast<size_t>(p.rank);
    if (nodes.size() <= rank) nodes.resize(rank + 1);
    nodes[rank] = std::make_shared<const std::string>(std::move(p.node));
  }
  const std::unique_lock lock(mutex_);
  nodes_ = std::move(nodes);
}

void LinkTransport::set_faults(std::vector<LinkFault> faults) {
  const std::unique_lock lock(mutex_);
  faults_ =
      faults.empty() ? nullptr : std::make_shared<const std::vector<LinkFault>>(std::move(faults));
}

std::shared_ptr<const std::string> LinkTransport::node_of(uint32_t rank) const {
  const std::shared_lock lock(mutex_);
  return rank < nodes_.size() ? nodes_[rank] : nullptr;
}

FrameFate LinkTransport::fate_of(const FrameHeader& h, double now) {
  const std::shared_lock lock(mutex_);
  if (!faults_) return {};
  Random random(seed_, h.from, Purpose::link_delay, draws_++);
  return frame_fate(*faults_, h, now, random);
}

double LinkTransport::held_s(const FrameFate& fate, const FrameHeader& h, double now) {
  if (fate.bytes_per_second <= 0) return fate.extra_s;
  const std::lock_guard lock(narrow_mutex_);
  return fate.extra_s + narrow_.wait_s(h, frame_bytes(h), fate.bytes_per_second, now);
}

void LinkTransport::hand_over(double now, const FrameFate& fate, Frame frame) {
  const auto to = static_cast<int>(frame.header.to);
  const double held = held_s(fate, frame.header, now);
  if (held > 0) return deliver_at_(now + held, to, std::move(frame));
  deliver_(to, std::move(frame));
}

uint64_t LinkTransport::send(double now, const FrameHeader& header, Lease payload) {
  const auto node = node_of(header.to);
  if (!node) return 0;
  const FrameFate fate = fate_of(header, now);
  const bool here = node->empty();
  const bool corrupt = fate.corrupt && (here || header.count == 0) && !fate.lost;
  lost_ += fate.lost;
  corrupt_ += corrupt;
  if (fate.lost || corrupt) return frame_bytes(header);
  Links* links = links_;
  bool sent = false;
  for (int copy = fate.twice ? 2 : 1; copy > 0; --copy) {
    if (here) {
      hand_over(now, fate, {header, payload});
      sent = true;
    } else if (links != nullptr) {
      sent = links->send_frame(*node, header, payload_of(header, payload));
    }
  }
  refused_ += !sent;
  return sent ? frame_bytes(header) : 0;
}

std::optional<uint64_t> LinkTransport::spoils(double now, const FrameHeader& header) {
  if (header.count == 0 || !fate_of(header, now).corrupt) return {};
  Random random(seed_, header.from, Purpose::link_delay, draws_++);
  return random.bits() % (8 * payload_bytes(header));
}

void LinkTransport::receive(double now, const std::string& node, Frame frame) {
  const auto sender = node_of(frame.header.from), receiver = node_of(frame.header.to);
  if (!sender || *sender != node || !receiver || !receiver->empty()) {
    ++strangers_;
    return;
  }
  hand_over(now, fate_of(frame.header, now), std::move(frame));
}

LinkTransport::Counts LinkTransport::counts() const {
  return {lost_, corrupt_, refused_, strangers_};
}

}  // namespace grapevine
