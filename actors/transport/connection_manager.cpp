#include "actors/transport/connection_manager.hpp"

#include <kj/debug.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "actors/transport/bulk_board.hpp"
#include "actors/transport/streams.hpp"
#include "actors/transport/tls.hpp"
#include "messages/control_codec.hpp"
#include "messages/facts.hpp"
#include "messages/setting_lines.hpp"

namespace grapevine {

namespace {

constexpr double kLastWordsS = 0.5;  // for queued messages when a link ends politely
constexpr int kToldPerSecond = 10;
constexpr size_t kUnresolvedKept = 1000;

constexpr double kMeasureEveryS = 0.2;
constexpr size_t kMostConsoles = 64;
constexpr uint64_t kChallenge = 0;  // number of the ping; the membership's numbers start at 1
constexpr double kAnswerS = 1;      // for the answer, by a process whose name another one claims

/// TCP's own estimate.
double smoothed_round_trip_s(kj::AsyncIoStream& stream) {
  tcp_info info{};
  unsigned size = sizeof info;
  const auto failed =
      kj::runCatchingExceptions([&] { stream.getsockopt(IPPROTO_TCP, TCP_INFO, &info, &size); });
  return failed == nullptr ? info.tcpi_rtt * 1e-6 : 0;
}

/// Whether a dial failed because no process listens. Of a local socket the file may be missing:
/// every node that starts removes those of processes that are gone.
bool nobody_listens(const std::string& address, const std::string& reason) {
  return reason.find("refused") != reason.npos ||
         (is_path(address) && reason == std::strerror(ENOENT));
}

}  // namespace

ConnectionManager::ConnectionManager(Loop& loop, BulkBoard& bulk, PeerTable& peers,
                                     RefusalCounters& refusals, const LinksOptions& options,
                                     const LinkEvents& events, int listen_fd, bool listens_tcp)
    : loop_(loop),
      bulk_(bulk),
      peers_(peers),
      refusals_(refusals),
      options_(options),
      events_(events),
      listens_tcp_(listens_tcp),
      told_since_(loop.timer().now()),
      tasks_(*this) {
  if (options.key)
    tls_ = make_tls(make_identity(*options.key, options.self.node, *options.own_key));
  acceptor_ = kj::heap<Acceptor>(listen_fd, loop, options.connect_s,
                                 [this](Knock knock) { tasks_.add(welcome(std::move(knock))); });
}

ConnectionManager::~ConnectionManager() { leaving_ = true; }

kj::Promise<void> ConnectionManager::welcome(Knock knock) {
  if (knock.what == Knock::For::another_user) {
    tell_turned_away(knock.from, "a process of another user");
    return kj::READY_NOW;
  }
  if (knock.what == Knock::For::plain_bulk || knock.what == Knock::For::encrypted_bulk) {
    bulk_.welcome(std::move(knock));
    return kj::READY_NOW;
  }
  auto stream = loop_.io().lowLevelProvider->wrapSocketFd(
      kj::mv(*knock.fd),
      kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC | kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  set_options(*stream);
  auto connection = std::make_shared<Connection>();
  connection->address = knock.from;
  connection->slot = std::move(knock.slot);
  const bool wanted = tls_.get() != nullptr && listens_tcp_;
  const bool tls = knock.what == Knock::For::tls_control;
  if (!tls || !wanted) {
    Connection* c = adopt({kj::mv(stream), kj::UnknownPeerIdentity::newInstance()},
                          std::move(*connection), false);
    if (c != nullptr && tls != wanted)
      refuse(*c, tls ? "a run key there, this node has none"
                     : "no run key there, this node asks for one");
    return kj::READY_NOW;
  }
  return loop_.timer()
      .timeoutAfter(seconds(options_.connect_s),
                    tls_->wrapServer(kj::AuthenticatedStream{
                        kj::mv(stream), kj::UnknownPeerIdentity::newInstance()}))
      .then(
          [this, connection](kj::AuthenticatedStream secure) {
            adopt(kj::mv(secure), std::move(*connection), true);
          },
          [this, connection](kj::Exception&& e) {
            tell_turned_away(connection->address, tls_reason_of(e));
          });
}

void ConnectionManager::dial(const std::string& address) {
  for (const auto& [id, c] : connections_) {
    if (c->stage == Stage::up && c->link->open() && c->peer.address == address) {
      if (events_.dial_failed)
        events_.dial_failed(address, "a link with " + c->peer.node + " stands already", false);
      return;
    }
  }
  auto connected = kj::evalNow([&]() -> kj::Promise<kj::AuthenticatedStream> {
    if (is_path(address) && listens_tcp_)  // an address from a peer must not become a path here
      return kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(kPathByTcp));
    return loop_.timer().timeoutAfter(seconds(options_.connect_s),
                                      connect_stream(loop_, tls_.get(), address));
  });
  tasks_.add(connected.then(
      [this, address](kj::AuthenticatedStream stream) {
        Connection connection;
        connection.dialled = true;
        connection.address = address;
        adopt(kj::mv(stream), std::move(connection), tls_.get() != nullptr && !is_path(address));
      },
      [this, address](kj::Exception&& e) {
        if (leaving_ || !events_.dial_failed) return;
        const std::string reason = dial_reason_of(e);
        if (reason == kUnresolved) tell_unresolved(address);
        events_.dial_failed(address, reason, nobody_listens(address, reason));
      }));
}

ConnectionManager::Connection* ConnectionManager::adopt(kj::AuthenticatedStream stream,
                                                        Connection&& made, bool tls) {
  if (leaving_) return nullptr;
  auto owned = kj::heap<Connection>(kj::mv(made));
  Connection& c = *owned;
  c.id = ++last_id_;
  if (tls) c.certified = certified_name(*stream.peerIdentity);
  if (tls) c.certified_key = certified_key(*stream.peerIdentity);
  c.self = options_.self;
  c.self.challenge = random_challenge();
  // Other threads may wake it until the end, when this board is gone.
  c.outbox = std::make_shared<Outbox>(
      options_.queued_bytes,
      [this, inbox = loop_.inbox(), id = c.id, alive = std::weak_ptr<void>(alive_)] {
        inbox->post([this, id, alive] {
          if (alive.expired()) return;
          if (Connection* one = find(id)) one->link->flush();
        });
      });
  ControlLink::Handlers handlers{
      [this, &c](std::span<const std::byte> bytes) { on_message(c, bytes); },
      [this, id = c.id](const std::string& reason) { on_closed(id, reason); }};
  c.link = kj::heap<ControlLink>(kj::mv(stream.stream), !tls, c.outbox, std::move(handlers));
  c.deadline = loop_.timer().afterDelay(seconds(options_.connect_s)).then([&c] {
    c.link->close("no agreement in time");
  });
  c.deadline = c.deadline.eagerlyEvaluate([](kj::Exception&&) {});
  connections_.emplace(c.id, kj::mv(owned));
  c.link->start();
  if (c.dialled) push(c, c.self);
  return &c;
}

void ConnectionManager::close(const std::string& node) {
  if (Connection* c = standing(node)) finish(*c, kClosedHere);
}

void ConnectionManager::know(const std::string& node, uint64_t id) {
  if (id == 0) {
    owners_.erase(node);
    return;
  }
  owners_[node] = id;
  if (Connection* c = standing(node); c != nullptr && id_of(c->peer.key) != id)
    finish(*c, "its name is another process's");
}

void ConnectionManager::refuse(Connection& c, const std::string& reason) {
  push(c, Refusal{reason.substr(0, kLineBytes)});
  finish(c, reason);
}

void ConnectionManager::refuse_message(Connection& c, const std::string& reason) {
  refusals_.count(LinkRefusal::message);
  refuse(c, reason);
}

/// From here on the connection counts as ended. It is closed when the other end knows.
void ConnectionManager::finish(Connection& c, const std::string& reason) {
  if (c.stage == Stage::ending) return;
  if (c.stage == Stage::up || c.stage == Stage::console) push(c, Bye{});
  report_end(c, reason);
  c.link->finish();
  c.deadline = loop_.timer()
                   .afterDelay(seconds(kLastWordsS))
                   .then([&c] { c.link->close("ended"); })
                   .eagerlyEvaluate([](kj::Exception&&) {});
}

void ConnectionManager::on_closed(uint64_t id, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (found->second->link->too_large()) refusals_.count(LinkRefusal::message);
  report_end(*found->second, reason);
  // Later: the link's own promises call this.
  tasks_.add(kj::evalLater([gone = kj::mv(found->second)] {}));
  connections_.erase(found);
  if (leaving_ && connections_.empty() && left_) left_();
}

/// Reports the end of each connection once.
void ConnectionManager::report_end(Connection& c, const std::string& reason) {
  const Stage was = std::exchange(c.stage, Stage::ending);
  c.slot = nullptr;
  if (was == Stage::ending) return;
  if (c.entry != nullptr) {
    peers_.remove(*c.entry);
    bulk_.remove(c.id);
  }
  if (!leaving_) {
    if (was == Stage::up) {
      if (events_.down) events_.down(c.peer.node, c.peer.incarnation, reason);
    } else if (was == Stage::console) {
      if (events_.console_gone) events_.console_gone(c.id);
    } else if (c.dialled) {
      // The process with that name no longer listens there.
      if (events_.dial_failed) events_.dial_failed(c.address, reason, c.is_other);
    } else if (was != Stage::holding && !c.link->gone() && !c.is_own && !is_spare(c)) {
      tell_turned_away(c.address, reason);
    }
  }
  if (was == Stage::up || was == Stage::offered) offer_next(c.peer.node);
}

/// A member may repeat addresses that do not exist: each is reported once.
void ConnectionManager::tell_unresolved(const std::string& address) {
  const bool is_new = unresolved_.size() < kUnresolvedKept && unresolved_.insert(address).second;
  if (is_new) tell_turned_away(address, kUnresolved);
}

void ConnectionManager::tell_turned_away(const std::string& from, const std::string& reason) {
  if (leaving_ || !events_.turned_away) return;
  const auto now = loop_.timer().now();
  if (now - told_since_ >= 1 * kj::SECONDS) {
    told_since_ = now;
    told_ = 0;
  }
  if (++told_ <= kToldPerSecond) events_.turned_away(from, reason);
}

void ConnectionManager::leave(std::function<void()> done) {
  leaving_ = true;
  acceptor_ = nullptr;
  left_ = std::move(done);
  if (connections_.empty()) return left_();
  std::vector<Connection*> all;
  for (auto& [id, c] : connections_)
    all.push_back(c.get());
  for (Connection* c : all)
    finish(*c, "this node ends");
}

bool ConnectionManager::push(Connection& c, const ControlMessage& m) {
  const auto bytes = encode_control(m);
  GV_CHECK(static_cast<bool>(bytes));
  return c.outbox->push(*bytes);
}

ConnectionManager::Connection* ConnectionManager::find(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

/// Another connection of the same pair is up: this one was not refused.
bool ConnectionManager::is_spare(const Connection& c) {
  const Connection* other = standing(c.peer.node);
  return other != nullptr && other->peer.key == c.peer.key &&
         other->peer.incarnation == c.peer.incarnation;
}

ConnectionManager::Connection* ConnectionManager::standing(const std::string& node) {
  for (auto& [id, c] : connections_)
    if (c->stage == Stage::up && c->peer.node == node) return c.get();
  return nullptr;
}

// --- the handshake of a control connection, and what comes after it

bool is_final(std::string_view reason) {
  return reason.starts_with("another ") || reason.find("run key") != reason.npos ||
         reason == kPathByTcp;
}

void ConnectionManager::on_message(Connection& c, std::span<const std::byte> bytes) {
  auto decoded = decode_control(bytes);
  if (!decoded) return refuse_message(c, decoded.error().message);
  ControlMessage& m = *decoded;
  if (std::holds_alternative<Bye>(m)) return c.link->close(kSaidGoodbye);
  if (const auto* refusal = std::get_if<Refusal>(&m)) return c.link->close(refusal->reason);
  if (c.stage == Stage::up) return on_peer_message(c, std::move(m), bytes.size());
  if (c.stage == Stage::console) return on_console_message(c, std::move(m));
  shake(c, m);
}

void ConnectionManager::shake(Connection& c, ControlMessage& m) {
  if (const auto* hello = std::get_if<Hello>(&m); hello != nullptr && c.stage == Stage::hello)
    return on_hello(c, *hello);
  const bool agrees = c.stage == Stage::offered || c.stage == Stage::awaiting;
  if (const auto* agree = std::get_if<Agree>(&m); agree != nullptr && agrees) {
    if (!is_signed(c.peer.key, link_bytes(c.peer, c.self), agree->proof))
      return refuse_message(c, "no proof that " + c.peer.node + " has its key");
    return c.stage == Stage::offered ? stand(c) : take_agree(c);
  }
  refuse_message(c, std::string("a ") + name_of(m) + " before the link stands");
}

/// The node with the higher name offers this connection.
void ConnectionManager::take_agree(Connection& c) {
  if (Connection* old = standing(c.peer.node)) {
    if (old->peer.incarnation > c.peer.incarnation)
      return refuse(c, "incarnation " + std::to_string(c.peer.incarnation) + " of " + c.peer.node +
                           " is over, there is an incarnation " +
                           std::to_string(old->peer.incarnation));
    if (old->peer.key != c.peer.key) return challenge(*old, c);
  }
  push(c, agree_with(c));
  stand(c);
}

Agree ConnectionManager::agree_with(const Connection& c) const {
  return {options_.own_key->sign(link_bytes(c.self, c.peer))};
}

void ConnectionManager::challenge(Connection& first, Connection& second) {
  second.stage = Stage::second;
  if (std::exchange(first.challenged, true)) return;
  MembershipPacket ping;
  ping.sequence = kChallenge;
  push(first, ping);
  first.patience = loop_.timer().afterDelay(seconds(kAnswerS)).then([this, id = first.id] {
    Connection* silent = find(id);
    if (silent != nullptr && silent->stage == Stage::up)
      finish(*silent, "it does not answer, and another process of its name does");
  });
  first.patience = first.patience.eagerlyEvaluate([](kj::Exception&&) {});
}

/// Closes the connections that wait for its place.
void ConnectionManager::answered(Connection& first) {
  first.challenged = false;
  first.patience = nullptr;
  std::vector<uint64_t> waiting;
  for (const auto& [id, c] : connections_)
    if (c->stage == Stage::second && c->peer.node == first.peer.node) waiting.push_back(id);
  for (const uint64_t id : waiting)
    if (Connection* second = find(id)) refuse(*second, kNameTaken);
}

/// The same line for both ends; empty if they agree.
std::string ConnectionManager::disagreement(const Connection& c, const Hello& h) const {
  const Hello& self = options_.self;
  const auto differ = [&](const char* what, const std::string& theirs, const std::string& ours) {
    return std::string("another ") + what + ": " + theirs + " at " + h.node + ", " + ours + " at " +
           self.node;
  };
  const bool is_console = h.purpose == LinkPurpose::console;
  const uint16_t version = is_console ? kConsoleVersion : self.version;
  if (h.version != version && !(is_console && h.version == kOldestConsole))
    return differ("protocol version", std::to_string(h.version), std::to_string(version));
  if (!c.certified.empty() && c.certified != h.node)
    return "the name " + h.node + " with a certificate for " + c.certified;
  if (h.purpose == LinkPurpose::console)
    return c.dialled ? "a console where a node was expected" : std::string();
  if (!c.certified.empty() && c.certified_key != h.key)
    return "a key of " + h.node + " that is not its certificate's";
  if (h.node == self.node) return "the name " + h.node + " is this node's own";
  if (h.run != self.run) return differ("run", h.run, self.run);
  if (h.job != self.job) return differ("job", h.job_is, self.job_is);
  const SettingLines ours = setting_lines(self.settings);
  for (const auto& [name, theirs] : setting_lines(h.settings))
    if (const auto own = ours.find(name); own != ours.end() && own->second != theirs)
      return differ(name.c_str(), theirs, own->second);
  return {};
}

void ConnectionManager::on_hello(Connection& c, const Hello& h) {
  c.is_own = h.purpose == LinkPurpose::control && h.key == options_.self.key;
  if (const std::string why = disagreement(c, h); !why.empty()) return refuse(c, why);
  if (h.purpose == LinkPurpose::console) make_room();
  c.is_other = is_contested(h);
  if (c.is_other) {
    if (events_.contested && !leaving_) events_.contested(h.node);
    return refuse(c, kNameHeld);
  }
  c.peer = h;
  c.self.version = h.version;  // consoles have their own versions
  if (!c.dialled) push(c, c.self);
  if (h.purpose == LinkPurpose::console) {
    c.stage = Stage::console;
    c.heard_at = loop_.timer().now();
    c.deadline = nullptr;
    c.slot = nullptr;
    c.link->set_limit(kControlBytes);
  } else if (options_.self.node > h.node) {
    try_offer(c);
  } else {
    c.stage = Stage::awaiting;
  }
}

/// Another process has this name, and no link is up.
bool ConnectionManager::is_contested(const Hello& h) const {
  if (h.purpose == LinkPurpose::console) return false;
  const auto owner = owners_.find(h.node);
  if (owner == owners_.end() || owner->second == id_of(h.key)) return false;
  return std::none_of(connections_.begin(), connections_.end(), [&](const auto& c) {
    return c.second->stage == Stage::up && c.second->peer.node == h.node;
  });
}

/// Makes room for one more console. It closes the one that waits for no answer, or if there is
/// none, any one, with the oldest last message.
void ConnectionManager::make_room() {
  Connection* oldest = nullptr;
  size_t consoles = 0;
  for (auto& [id, c] : connections_) {
    if (c->stage != Stage::console) continue;
    ++consoles;
    if (oldest == nullptr ||
        std::pair(c->asks, c->heard_at) < std::pair(oldest->asks, oldest->heard_at))
      oldest = c.get();
  }
  if (consoles >= kMostConsoles) refuse(*oldest, "another console needs the place");
}

void ConnectionManager::try_offer(Connection& c) {
  c.stage = Stage::holding;
  for (auto& [id, other] : connections_) {
    if (other.get() == &c || other->peer.node != c.peer.node) continue;
    if (other->stage == Stage::offered) return;  // offer_next() is called when that one is decided
    if (other->stage != Stage::up) continue;
    if (other->peer.incarnation > c.peer.incarnation)
      return refuse(c, "incarnation " + std::to_string(c.peer.incarnation) + " of " + c.peer.node +
                           " is over, there is an incarnation " +
                           std::to_string(other->peer.incarnation));
    if (other->peer.key != c.peer.key) return challenge(*other, c);
    if (other->peer.incarnation == c.peer.incarnation)
      return refuse(c, "a link with " + c.peer.node + " stands already");
  }
  c.stage = Stage::offered;
  push(c, agree_with(c));
}

void ConnectionManager::offer_next(const std::string& node) {
  for (auto& [id, c] : connections_) {
    const bool waits = c->stage == Stage::holding || c->stage == Stage::second;
    if (!waits || c->peer.node != node) continue;
    // Later: the caller may be iterating over the table.
    tasks_.add(kj::evalLater([this, id = id] {
      Connection* held = find(id);
      if (held == nullptr) return;
      if (held->stage == Stage::second && options_.self.node < held->peer.node)
        take_agree(*held);
      else if (held->stage == Stage::holding || held->stage == Stage::second)
        try_offer(*held);
    }));
    return;
  }
}

void ConnectionManager::stand(Connection& c) {
  if (Connection* old = standing(c.peer.node)) finish(*old, "replaced by a newer connection");
  c.stage = Stage::up;
  c.deadline = nullptr;
  c.slot = nullptr;
  c.link->set_limit(kControlBytes);
  c.entry = std::make_shared<Peer>();
  c.entry->hello = c.peer;
  c.entry->connection = c.id;
  c.entry->dialled = c.dialled;
  c.entry->address = c.address;
  c.entry->outbox = c.outbox;
  c.entry->bulk = bulk_.queue(c.id);
  c.entry->counters.round_trip_s = smoothed_round_trip_s(c.link->stream());
  peers_.put(c.entry);
  bulk_.add(c.entry);
  if (events_.up && !leaving_) events_.up(c.peer);
  offer_next(c.peer.node);
}

void ConnectionManager::on_peer_message(Connection& c, ControlMessage&& m, size_t bytes) {
  const auto* packet = std::get_if<MembershipPacket>(&m);
  if (c.challenged && packet != nullptr && packet->kind == MembershipPacket::Kind::ack &&
      packet->sequence == kChallenge)
    answered(c);
  auto& counters = c.entry->counters;
  ++counters.messages_received;
  counters.message_bytes_received += bytes;
  if (const auto now = loop_.timer().now();
      counters.round_trip_s > 0 && now - c.measured >= seconds(kMeasureEveryS)) {
    c.measured = now;
    counters.round_trip_s = smoothed_round_trip_s(c.link->stream());
  }
  if (const auto* header = std::get_if<FrameHeader>(&m)) {
    if (events_.frame && !leaving_) events_.frame(c.peer.node, {*header, {}});
  } else if (const auto* token = std::get_if<BulkToken>(&m)) {
    bulk_.token(c.id, *token);
  } else if (std::holds_alternative<MembershipPacket>(m) || std::holds_alternative<FetchState>(m) ||
             std::holds_alternative<Manifest>(m) || std::holds_alternative<MeanAsk>(m) ||
             std::holds_alternative<NcclTalk>(m)) {
    if (events_.control && !leaving_) events_.control(c.peer.node, std::move(m));
  } else {
    refuse_message(c, std::string("a ") + name_of(m) + " on a link that stands");
  }
}

void ConnectionManager::on_console_message(Connection& c, ControlMessage&& m) {
  if (auto* request = std::get_if<ConsoleRequest>(&m)) {
    if (std::exchange(c.asks, true))
      return refuse_message(c, "a request before the answer to the last one");
    c.heard_at = loop_.timer().now();
    if (events_.console && !leaving_) events_.console(c.id, std::move(*request));
  } else {
    refuse_message(c, std::string("a ") + name_of(m) + " from a console");
  }
}

void ConnectionManager::reply(uint64_t console, const ConsoleReply& answer) {
  Connection* c = find(console);
  if (c == nullptr || c->stage != Stage::console) return;
  c->asks = answer.more;
  if (const Status valid = validate(answer); !valid) {
    push(*c, ConsoleReply{false, false, valid.error().message});
  } else if (!push(*c, answer)) {
    finish(*c, "it does not read its answers");
  }
}

}  // namespace grapevine
