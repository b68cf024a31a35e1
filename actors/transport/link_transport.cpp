#include "actors/transport/link_transport.hpp"

#include "kernels/random.hpp"

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

bool LinkTransport::loses(const FrameHeader& h, double now) {
  const std::shared_lock lock(mutex_);
  if (!faults_) return false;
  Random random(seed_, h.from, Purpose::link_delay, draws_++);
  for (const LinkFault& fault : *faults_) {
    if (fault.kind == LinkFaultKind::delay || fault.kind == LinkFaultKind::repeat) continue;
    if (!fault.touches(static_cast<int>(h.from), static_cast<int>(h.to), h.count > 0, now))
      continue;
    if (fault.kind != LinkFaultKind::loss || random.uniform() < fault.probability) return true;
  }
  return false;
}

double LinkTransport::held_s(const FrameHeader& h, double now) const {
  const std::shared_lock lock(mutex_);
  double held = 0;
  if (!faults_) return held;
  for (const LinkFault& fault : *faults_)
    if (fault.kind == LinkFaultKind::delay &&
        fault.touches(static_cast<int>(h.from), static_cast<int>(h.to), h.count > 0, now))
      held += fault.seconds;
  return held;
}

uint64_t LinkTransport::send(double now, const FrameHeader& header, Lease payload) {
  const auto node = node_of(header.to);
  if (!node) return 0;
  if (loses(header, now)) {
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

void LinkTransport::receive(double now, const std::string& node, Frame frame) {
  const Result<FrameHeader> header = decode(frame.header, kMaxPayloadBytes);
  const auto sender = header ? node_of(header->from) : nullptr;
  const auto receiver = header ? node_of(header->to) : nullptr;
  if (!sender || *sender != node || !receiver || !receiver->empty()) {
    ++strangers_;
    return;
  }
  const double held = held_s(*header, now);
  if (held > 0) return deliver_at_(now + held, static_cast<int>(header->to), std::move(frame));
  deliver_(static_cast<int>(header->to), std::move(frame));
}

LinkTransport::Counts LinkTransport::counts() const { return {lost_, refused_, strangers_}; }

}  // namespace grapevine
