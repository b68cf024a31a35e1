#include "actors/device/nccl_links.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "actors/conversations/counts.hpp"
#include "kernels/memory/hash.hpp"

namespace grapevine {

namespace {

constexpr double kPatience_s = 2;     // for the answer to a request
constexpr double kAgain_s = 0.05;     // between attempts to connect during an exchange
constexpr double kRounding_s = 1e-9;  // of the clock
constexpr NcclOptions kOptions;

constexpr char kOutOfPlace[] = "it has sent a message out of order";
constexpr char kSilent[] = "it does not answer";
constexpr char kNoRoom[] =
    "this device has the largest number of communicators, or NCCL has not released one";
constexpr char kNotSent[] = "its link takes no messages";

const char* words(NcclEnd::Reason reason) {
  switch (reason) {
    case NcclEnd::Reason::unwanted: return "its --link is another one";
    case NcclEnd::Reason::version: return "its NCCL is another version";
    case NcclEnd::Reason::full: return "its device can take no communicator now";
    case NcclEnd::Reason::out_of_place: return "it rejects a message of this node as out of order";
    case NcclEnd::Reason::broken: return "its communicator has broken";
  }
  return "";
}

}  // namespace

/// A node, as long as its link is open.
struct NcclLinks::Peer {
  // waiting: the two have agreed to connect, but the device is not free for it yet.
  enum class Stage : uint8_t { untried, waiting, connecting, open, over } stage = Stage::untried;
  std::optional<NcclId> id;
  uint64_t number = 0;             // of the edge; other messages are an earlier link's
  int rank = 0;                    // of this node in the communicator
  double give_up_s = 0;            // waiting
  std::unique_ptr<NcclEdge> edge;  // connecting, open

  enum class Exchange : uint8_t { none, requested, begun } exchange = Exchange::none;
  struct Outgoing {
    FrameHeader header;
    Payload payload;
    DeviceDock::Then then;
  };
  std::optional<Outgoing> out;                   // requested or begun; if begun maybe none
  std::optional<FrameHeader> coming;             // begun
  Lease room;                                    // requested: for the answer
  double answer_by_s = kNever;                   // requested
  uint64_t requested = 0, heard = 0, begun = 0;  // the last numbers: ours, theirs, of either

  uint64_t last() const { return std::max({requested, heard, begun}); }
};

NcclLinks::NcclLinks(std::string self, size_t largest, std::shared_ptr<const Nccl> nccl,
                     std::shared_ptr<DeviceShare> device, std::shared_ptr<DeviceDock> dock,
                     const std::shared_ptr<LinkTransport>& transport, Told told)
    : self_(std::move(self)),
      largest_(largest),
      nccl_(std::move(nccl)),
      device_(std::move(device)),
      dock_(std::move(dock)),
      transport_(transport),
      told_(std::move(told)),
      to_owner_(std::make_shared<ToOwner>()),
      // Memory that NCCL still uses keeps the device alive, whoever else has gone.
      edges_(
          device_->device(), device_->fences(), nccl_->calls,
          [post = to_owner_, keep = device_](std::function<void()> what) {
            (*post)([keep, what = std::move(what)] { what(); });
          },
          kOptions) {
  static_cast<void>(edges_.start());  // lost: then there are no payloads
}

NcclLinks::~NcclLinks() = default;

void NcclLinks::serve(ToOwner to_owner, OwnerTime time) {
  *to_owner_ = std::move(to_owner);
  time_ = std::move(time);
}

NcclLinks::Peer& NcclLinks::peer(const std::string& node) {
  auto& known = peers_[node];
  if (!known) known = std::make_unique<Peer>();
  return *known;
}

template <class What>
bool NcclLinks::talk(const std::string& node, const Peer& p, What what) {
  const auto transport = transport_.lock();
  return transport && transport->talk(node, {p.number, std::move(what)});
}

/// A node that waits to connect comes first, because it needs a device without an exchange.
bool NcclLinks::take_turn(Peer& p) const {
  const auto waits = [](const auto& one) { return one.second->stage == Peer::Stage::waiting; };
  return std::none_of(peers_.begin(), peers_.end(), waits) && p.edge->take_turn();
}

// --- time

void NcclLinks::tick() {
  const double now = time_.now_s() + kRounding_s;
  if (!timer_.rings(now)) return;
  for (const auto& [node, p] : peers_) {
    if (p->edge && p->edge->due_s() <= now) p->edge->poll(now);
    if (p->stage == Peer::Stage::waiting) try_to_connect(node, *p);
    if (p->exchange == Peer::Exchange::requested && p->answer_by_s <= now)
      end(node, *p, NcclEnd::Reason::broken, kSilent);
  }
  arm();
}

void NcclLinks::arm() {
  double next_s = kNever;
  for (const auto& [node, p] : peers_) {
    if (p->edge) next_s = std::min(next_s, p->edge->due_s());
    if (p->stage == Peer::Stage::waiting) next_s = std::min(next_s, time_.now_s() + kAgain_s);
    if (p->exchange == Peer::Exchange::requested) next_s = std::min(next_s, p->answer_by_s);
  }
  if (!timer_.arm(next_s)) return;
  time_.at(next_s, [me = weak_from_this()] {
    if (const auto self = me.lock()) self->tick();
  });
}

// --- connecting

void NcclLinks::call(const std::string& node, Peer& p) {
  if (self_ > node) return;  // the other node calls
  if (edges_.written_off() > 0 || edges_.edges() >= kOptions.most_edges)
    return told_.note(node, [](DeviceEdge& edge) { edge.why = kNoRoom; });
  if (!p.id) {
    const Result<NcclId> made = nccl_->make_id();
    if (!made) return end(node, p, made.error().message);
    p.id = *made;
    p.number = fnv1a(std::span<const std::byte>(*p.id));
  }
  const auto version = static_cast<uint32_t>(nccl_->version);
  if (talk(node, p, NcclConnect{*p.id, version})) wait_to_connect(node, p, 0);
}

void NcclLinks::heard(const std::string& node, Peer& p, const NcclConnect& said) {
  if (self_ < node || p.stage != Peer::Stage::untried)
    return end(node, p, NcclEnd::Reason::out_of_place, kOutOfPlace);
  if (said.version != static_cast<uint32_t>(nccl_->version))
    return end(node, p, NcclEnd::Reason::version,
               fmt::format("its NCCL is {}, and here it is {}", said.version, nccl_->version));
  p.id = said.id;
  wait_to_connect(node, p, 1);
}

void NcclLinks::wait_to_connect(const std::string& node, Peer& p, int rank) {
  p.stage = Peer::Stage::waiting;
  p.rank = rank;
  p.give_up_s = time_.now_s() + kOptions.connect_s;
  try_to_connect(node, p);
}

void NcclLinks::try_to_connect(const std::string& node, Peer& p) {
  const double now = time_.now_s();
  const bool has_room = edges_.written_off() == 0 && edges_.edges() < kOptions.most_edges;
  if (!has_room || now >= p.give_up_s) return end(node, p, NcclEnd::Reason::full, kNoRoom);
  p.edge = edges_.connect(
      *p.id, p.rank,
      [me = weak_from_this(), node](const NcclNews& news) {
        if (const auto self = me.lock()) self->take(node, news);
      },
      now);
  if (p.edge) p.stage = Peer::Stage::connecting;
}

// --- an exchange

void NcclLinks::leave(const std::string& node, const FrameHeader& header, Payload payload,
                      DeviceDock::Then then) {
  Peer& p = peer(node);
  if (p.stage == Peer::Stage::untried) call(node, p);
  if (!request(node, p, header, payload, then)) dock_->leave(std::move(payload), std::move(then));
  arm();
}

bool NcclLinks::request(const std::string& node, Peer& p, const FrameHeader& header,
                        const Payload& payload, const DeviceDock::Then& then) {
  const size_t bytes = payload.vec().bytes();
  const bool is_idle = p.stage == Peer::Stage::open && p.exchange == Peer::Exchange::none;
  if (bytes == 0 || !is_idle || !take_turn(p)) return false;
  Lease room = dock_->take(bytes);  // the answer usually has the same size
  uint64_t number = p.last() + 1;
  if ((number % 2 == 1) != (self_ < node)) ++number;
  if (!talk(node, p, NcclRequest{number, room ? bytes : 0, header})) {
    p.edge->leave_turn();
    return false;
  }
  p.exchange = Peer::Exchange::requested;
  p.requested = number;
  p.answer_by_s = time_.now_s() + kPatience_s;
  p.out = Peer::Outgoing{header, payload, then};
  p.room = std::move(room);
  return true;
}

void NcclLinks::hear(const std::string& node, const NcclTalk& said) {
  Peer& p = peer(node);
  const bool connects = std::holds_alternative<NcclConnect>(said.what);
  if (connects && p.stage == Peer::Stage::untried) p.number = said.edge;
  // Else the other node sent it before it knew that the edge or the earlier link had ended.
  const bool is_meant = p.stage != Peer::Stage::over &&
                        (connects || (p.stage != Peer::Stage::untried && said.edge == p.number));
  if (is_meant) std::visit([&](const auto& what) { heard(node, p, what); }, said.what);
  arm();
}

void NcclLinks::heard(const std::string& node, Peer& p, const NcclEnd& said) {
  end(node, p, words(said.reason));
}

void NcclLinks::heard(const std::string& node, Peer& p, const NcclRequest& said) {
  const bool is_connected = p.stage == Peer::Stage::connecting || p.stage == Peer::Stage::open;
  const bool is_theirs = (said.number % 2 == 1) == (node < self_);
  // A node that has received all messages of this node is at most two numbers ahead.
  const bool is_next =
      said.number > std::max(p.heard, p.begun) && said.number <= p.last() + 2 && is_theirs;
  if (!is_connected || !is_next || payload_bytes(said.header) > largest_)
    return end(node, p, NcclEnd::Reason::out_of_place, kOutOfPlace);
  p.heard = said.number;
  const bool crosses = p.exchange == Peer::Exchange::requested;
  if (crosses && self_ < node) return;  // ours counts; their payload is the answer
  grant(node, p, said);
}

void NcclLinks::grant(const std::string& node, Peer& p, const NcclRequest& said) {
  const bool gives_way = p.exchange == Peer::Exchange::requested;
  const bool has_turn = gives_way || (p.stage == Peer::Stage::open &&
                                      p.exchange == Peer::Exchange::none && take_turn(p));
  if (!has_turn) return void(talk(node, p, NcclDecline{said.number}));
  p.exchange = Peer::Exchange::none;
  const size_t bytes = payload_bytes(said.header);
  Lease room = std::move(p.room);
  if (!room || room.vec().bytes() < bytes) room = dock_->take(bytes);
  if (!room || (p.out && payload_bytes(p.out->header) > said.room_bytes)) by_host(p);
  if (!room) {
    p.edge->leave_turn();
    return void(talk(node, p, NcclDecline{said.number}));
  }
  const auto back = p.out ? std::optional(p.out->header) : std::nullopt;
  if (!talk(node, p, NcclGrant{said.number, back}))
    return end(node, p, NcclEnd::Reason::broken, kNotSent);
  p.coming = said.header;
  begin(p, said.number, std::move(room));
}

void NcclLinks::heard(const std::string& node, Peer& p, const NcclGrant& said) {
  const bool is_asked = p.exchange == Peer::Exchange::requested && said.number == p.requested;
  const size_t room_bytes = p.room ? p.room.vec().bytes() : 0;
  if (!is_asked || (said.header && payload_bytes(*said.header) > room_bytes))
    return end(node, p, NcclEnd::Reason::out_of_place, kOutOfPlace);
  p.coming = said.header;
  begin(p, said.number, std::move(p.room));
}

void NcclLinks::heard(const std::string& node, Peer& p, const NcclDecline& said) {
  if (p.exchange != Peer::Exchange::requested || said.number != p.requested)
    return end(node, p, NcclEnd::Reason::out_of_place, kOutOfPlace);
  p.exchange = Peer::Exchange::none;
  p.room = {};
  p.edge->leave_turn();
  by_host(p);
}

void NcclLinks::begin(Peer& p, uint64_t number, Lease room) {
  p.begun = number;
  p.exchange = Peer::Exchange::begun;
  NcclEdge::Half sent, received;
  if (p.out) sent = {p.out->payload.lease, payload_bytes(p.out->header)};
  if (p.coming) received = {std::move(room), payload_bytes(*p.coming)};
  // After the work that writes the one buffer, and after all earlier uses of the other.
  dock_->follow(p.edge->stream());
  // False: that it has broken comes as news.
  p.edge->exchange(number, std::move(sent), std::move(received), time_.now_s());
}

/// Sends a payload through the host's memory that was to go, or went, by NCCL.
void NcclLinks::by_host(Peer& p) {
  if (!p.out) return;
  const Peer::Outgoing out = *std::exchange(p.out, {});
  dock_->leave(out.payload, out.then);
}

void NcclLinks::take(const std::string& node, const NcclNews& news) {
  const auto found = peers_.find(node);
  if (found == peers_.end()) return;
  Peer& p = *found->second;
  switch (news.kind) {
    case NcclNews::Kind::connected:
      p.stage = Peer::Stage::open;
      told_.note(node, [](DeviceEdge& edge) {
        edge.has_nccl = true;
        edge.why.clear();
      });
      told_.say("snapshots for " + node + " go by NCCL, not encrypted");
      break;
    case NcclNews::Kind::arrived: {
      const bool sent = p.out.has_value();
      const auto coming = std::exchange(p.coming, {});
      p.exchange = Peer::Exchange::none;
      p.out.reset();
      told_.note(node, [&](DeviceEdge& edge) {
        edge.sent_by_nccl += sent;
        edge.received_by_nccl += coming.has_value();
      });
      const auto transport = transport_.lock();
      if (coming && transport) transport->receive(node, {*coming, news.received});
      break;
    }
    case NcclNews::Kind::broken: end(node, p, NcclEnd::Reason::broken, news.reason); break;
  }
  arm();
}

// --- the end

void NcclLinks::end(const std::string& node, Peer& p, NcclEnd::Reason reason,
                    const std::string& why) {
  talk(node, p, NcclEnd{reason});
  end(node, p, why);
}

void NcclLinks::end(const std::string& node, Peer& p, const std::string& why) {
  break_off(node, p);
  p.stage = Peer::Stage::over;
  told_.note(node, [&](DeviceEdge& edge) {
    edge.has_nccl = false;
    edge.why = why;
  });
  told_.say("snapshots for " + node + " go through the host's memory, not by NCCL: " + why);
}

void NcclLinks::break_off(const std::string& node, Peer& p) {
  if (p.exchange == Peer::Exchange::begun) {
    told_.note(node, [](DeviceEdge& edge) { ++edge.broken_by_nccl; });
    told_.say("an exchange with " + node +
              " by NCCL has failed: its memory is lost until NCCL releases it");
  }
  p.exchange = Peer::Exchange::none;
  p.coming.reset();
  p.room = {};
  p.edge = nullptr;
  by_host(p);
}

void NcclLinks::down(const std::string& node) {
  const auto found = peers_.find(node);
  if (found == peers_.end()) return;
  break_off(node, *found->second);
  peers_.erase(found);
}

}  // namespace grapevine
