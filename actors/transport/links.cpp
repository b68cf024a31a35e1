#include "actors/transport/links.hpp"

#include <unistd.h>

#include "actors/transport/bulk_board.hpp"
#include "actors/transport/connection_manager.hpp"
#include "actors/transport/local_socket.hpp"
#include "kernels/base/caught.hpp"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

Reach reach_of(const LinksOptions& options) {
  if (options.key) return Reach::network;
  return options.no_key ? Reach::machine : Reach::user;
}

class SocketLinks final : public Links {
 public:
  SocketLinks(LinksOptions given, LinkEvents events, const Listening& listening)
      : options_(std::move(given)),
        events_(std::move(events)),
        address_(options_.advertise.empty() ? reachable(listening.address) : options_.advertise) {
    if (options_.self.address.empty()) options_.self.address = address_;
    if (!options_.own_key) options_.own_key = NodeKey::generate();
    options_.self.key = options_.own_key->public_key();
    path_ = listening.tcp ? "" : listening.address.substr(5);
    bulk_loop_.call(
        [this] { bulk_ = kj::heap<BulkBoard>(bulk_loop_, options_, events_, refusals_); });
    try {
      control_loop_.call([this, &listening] {
        control_ = kj::heap<ConnectionManager>(control_loop_, *bulk_, peers_, refusals_, options_,
                                               events_, listening.fd, listening.tcp);
      });
    } catch (...) {
      bulk_loop_.call([this] { bulk_ = nullptr; });
      throw;
    }
  }

  ~SocketLinks() noexcept override {  // an exception of KJ here is a bug of ours
    std::promise<void> left;
    control_loop_.post([this, &left] {
      control_->leave([&left, told = false]() mutable {
        if (!std::exchange(told, true)) left.set_value();
      });
    });
    left.get_future().wait();
    // The control loop first: it has descriptors that the bulk loop has to take.
    control_loop_.call([this] { control_ = nullptr; });
    bulk_loop_.call([this] { bulk_ = nullptr; });
    if (!path_.empty()) remove_socket(path_);
  }

  const std::string& address() const override { return address_; }
  const PublicKey& key() const override { return options_.self.key; }

  void know(const std::string& node, uint64_t id) override {
    control_loop_.post([this, node, id] { control_->know(node, id); });
  }

  void dial(const std::string& address) override {
    control_loop_.post([this, address] { control_->dial(address); });
  }

  bool send(const std::string& node, const ControlMessage& m) override;
  bool send_frame(const std::string& node, const FrameHeader&, const Payload&,
                  std::optional<uint64_t> spoiled_bit) override;
  bool send_parcel(const std::string& node, const Parcel& parcel, const Payload& payload) override {
    return push(node, parcel, payload, {});
  }

  std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory& memory,
                                   LineEvents events) override;

  void reply(uint64_t console, const ConsoleReply& answer) override {
    control_loop_.post([this, console, answer] { control_->reply(console, answer); });
  }

  void close(const std::string& node) override {
    control_loop_.post([this, node] { control_->close(node); });
  }

  LinkCounts counts(const std::string& node) const override {
    const auto peer = peers_.find(node);
    return peer == nullptr ? LinkCounts() : peer->counters.values();
  }
  LinkCounts totals() const override { return peers_.totals(); }
  LinkRefusals refusals() const override { return refusals_.values(); }

 private:
  bool push(const std::string& node, const BulkHeader&, const Payload&,
            std::optional<uint64_t> spoiled_bit);

  LinksOptions options_;
  LinkEvents events_;
  std::string address_, path_;
  PeerTable peers_;
  RefusalCounters refusals_;
  Loop bulk_loop_, control_loop_;
  kj::Own<BulkBoard> bulk_;
  kj::Own<ConnectionManager> control_;
};

bool SocketLinks::send(const std::string& node, const ControlMessage& m) {
  const auto peer = peers_.find(node);
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

bool SocketLinks::send_frame(const std::string& node, const FrameHeader& header,
                             const Payload& payload, std::optional<uint64_t> spoiled_bit) {
  if (header.count == 0) return send(node, header);
  return push(node, header, payload, spoiled_bit);
}

std::shared_ptr<MemoryLine> SocketLinks::lend(const std::string& node, const LentMemory& memory,
                                              LineEvents events) {
  auto peer = peers_.find(node);
  if (peer == nullptr) return nullptr;
  const BulkPath path = peer->counters.bulk;
  if (path != BulkPath::unix_socket && path != BulkPath::shared_memory) return nullptr;
  LinePair pair = make_line_pair();
  if (!pair.here) return nullptr;
  auto socket =
      std::make_shared<LineSocket>(std::move(pair.here), LineSocket::End::lender, std::move(peer));
  if (!socket->offer(memory)) return nullptr;
  bulk_->lend(socket, std::move(pair.there), std::move(events));
  return handle_of(socket);
}

bool SocketLinks::push(const std::string& node, const BulkHeader& header, const Payload& payload,
                       std::optional<uint64_t> spoiled_bit) {
  GV_CHECK(payload.lease.vec().bytes() >= payload_bytes(header));
  const auto peer = peers_.find(node);
  if (peer == nullptr) return false;
  const auto pushed = peer->bulk->push({header, payload, spoiled_bit});
  if (pushed == BulkQueue::Pushed::refused) ++peer->counters.refused;
  if (pushed == BulkQueue::Pushed::sent) peer->counters.sent(header);
  return pushed != BulkQueue::Pushed::refused;
}

}  // namespace

LinkCounts& LinkCounts::operator+=(const LinkCounts& more) {
  messages_sent += more.messages_sent;
  messages_received += more.messages_received;
  message_bytes_sent += more.message_bytes_sent;
  message_bytes_received += more.message_bytes_received;
  frames_sent += more.frames_sent;
  frames_received += more.frames_received;
  frame_bytes_sent += more.frame_bytes_sent;
  frame_bytes_received += more.frame_bytes_received;
  parcels_sent += more.parcels_sent;
  parcels_received += more.parcels_received;
  parcel_bytes_sent += more.parcel_bytes_sent;
  parcel_bytes_received += more.parcel_bytes_received;
  in_place_bytes_sent += more.in_place_bytes_sent;
  refused += more.refused;
  discarded += more.discarded;
  lost += more.lost;
  corrupt += more.corrupt;
  return *this;
}

Result<std::unique_ptr<Links>> Links::open(LinksOptions options, LinkEvents events) {
  if (const Status valid = validate(options.self); !valid) return user_error(valid.error().message);
  raise_file_limit();
  const auto listening = options.listen.empty() ? listen_locally(options.self.node)
                                                : listen_on(options.listen, reach_of(options));
  if (!listening) return listening.error();
  auto links = caught([&]() -> Result<std::unique_ptr<Links>> {
    return std::unique_ptr<Links>(
        std::make_unique<SocketLinks>(std::move(options), std::move(events), *listening));
  });
  if (!links && !listening->tcp) remove_socket(listening->address.substr(5));
  return links;
}

}  // namespace grapevine
