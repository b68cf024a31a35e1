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

uint64_t LinkTransport::send(double now, const FrameHeader& header, Lease payload) {
  const auto node = node_of(header.to);
  if (!node) return 0;
  if (fate_of(header, now).lost) {
    ++lost_;
    return frame_bytes(header);
  }
  if (node->empty()) {
    deliver_(static_cast<int>(header.to), {encode(header), std::move(payload)});
    return frame_bytes(header);
  }
  Links* links = links_;
  const bool sent =
      links != nullptr && links->send_frame(*node, header, payload_of(header, payload));
  refused_ += !sent;
  return sent ? frame_bytes(header) : 0;
}

void LinkTransport::receive(double now, const std::string& node, const FrameHeader& header,
                            Frame frame) {
  const auto sender = node_of(header.from), receiver = node_of(header.to);
  if (!sender || *sender != node || !receiver || !receiver->empty()) {
    ++strangers_;
    return;
  }
  const auto to = static_cast<int>(header.to);
  const double held_s = fate_of(header, now).extra_s;
  if (held_s > 0) return deliver_at_(now + held_s, to, std::move(frame));
  deliver_(to, std::move(frame));
}

LinkTransport::Counts LinkTransport::counts() const { return {lost_, refused_, strangers_}; }

}  // namespace grapevine
