#include "actors/transport/links.hpp"

#include <unistd.h>

#include "actors/transport/bulk_board.hpp"
#include "actors/transport/sockets.hpp"
#include "actors/transport/switchboard.hpp"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

constexpr double kLeaveS = 1;

}  // namespace

class Links::Impl {
 public:
  Impl(LinksOptions given, LinkEvents events, const Listening& listening)
      : options(std::move(given)),
        events(std::move(events)),
        address(reachable(listening.address)) {
    if (options.self.address.empty()) options.self.address = address;
    path = listening.tcp ? "" : address.substr(5);
    bulk_loop.call([this] { bulk = kj::heap<BulkBoard>(bulk_loop, options, this->events); });
    control_loop.call([this, &listening] {
      control = kj::heap<Switchboard>(control_loop, *bulk, peers, options, this->events,
                                      listening.fd, listening.tcp);
    });
  }

  ~Impl() {
    std::promise<void> left;
    control_loop.post([this, &left] {
      control->leave([&left, told = false]() mutable {
        if (!std::exchange(told, true)) left.set_value();
      });
    });
    left.get_future().wait();
    // The control loop first: it holds descriptors that the bulk loop is to take.
    control_loop.call([this] { control = nullptr; });
    bulk_loop.call([this] { bulk = nullptr; });
    if (!path.empty()) ::unlink(path.c_str());
  }

  LinksOptions options;
  LinkEvents events;
  std::string address, path;
  PeerTable peers;
  Loop bulk_loop, control_loop;
  kj::Own<BulkBoard> bulk;
  kj::Own<Switchboard> control;
};

Result<std::unique_ptr<Links>> Links::open(LinksOptions options, LinkEvents events) {
  if (const Status valid = validate(options.self); !valid) return user_error(valid.error().message);
  raise_file_limit();
  const auto listening = listen_on(options.listen, options.key.has_value());
  if (!listening) return listening.error();
  return std::unique_ptr<Links>(
      new Links(std::make_unique<Impl>(std::move(options), std::move(events), *listening)));
}

Links::Links(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Links::~Links() = default;

const std::string& Links::address() const { return impl_->address; }

void Links::dial(const std::string& address) {
  impl_->control_loop.post([impl = impl_.get(), address] { impl->control->dial(address); });
}

bool Links::send(const std::string& node, const ControlMessage& m) {
  const auto peer = impl_->peers.find(node);
  if (peer == nullptr) return false;
  const auto bytes = encode_control(m);
  if (!bytes) check_detail::fail(__FILE__, __LINE__, "a valid message", bytes.error().message);
  auto& counters = peer->counters;
  if (!peer->outbox->push(*bytes)) {
    ++counters.refused;
    return false;
  }
  ++counters.messages_sent;
  counters.message_bytes_sent += bytes->size();
  return true;
}

bool Links::send_frame(const std::string& node, const FrameHeader& header, const Payload& payload) {
  if (header.count == 0) return send(node, header);
  GV_CHECK(payload.lease.vec().bytes() >= payload_bytes(header));
  const auto peer = impl_->peers.find(node);
  if (peer == nullptr) return false;
  if (peer->bulk->push(header, payload)) return true;
  ++peer->counters.refused;
  return false;
}

void Links::reply(uint64_t console, const ConsoleReply& answer) {
  impl_->control_loop.post(
      [impl = impl_.get(), console, answer] { impl->control->reply(console, answer); });
}

void Links::close(const std::string& node) {
  impl_->control_loop.post([impl = impl_.get(), node] { impl->control->close(node); });
}

LinkCounts Links::counts(const std::string& node) const {
  const auto peer = impl_->peers.find(node);
  if (peer == nullptr) return {};
  const auto& c = peer->counters;
  return {c.messages_sent,
          c.messages_received,
          c.message_bytes_sent,
          c.message_bytes_received,
          c.frames_sent,
          c.frames_received,
          c.frame_bytes_sent,
          c.frame_bytes_received,
          c.refused,
          c.discarded,
          c.lost,
          c.round_trip_s,
          c.bulk};
}

}  // namespace grapevine
