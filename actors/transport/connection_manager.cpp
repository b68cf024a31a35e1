#include "actors/transport/connection_manager.hpp"

#include <kj/debug.h>

#include <random>

#include "actors/transport/bulk_board.hpp"
#include "actors/transport/streams.hpp"
#include "actors/transport/tls.hpp"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

constexpr double kLastWordsS = 0.5;  // for what is queued when a link ends politely
constexpr int kToldPerSecond = 10;

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
  if (options.key) {
    const Identity identity = make_identity(*options.key, options.self.node);
    tls_ = make_tls(identity);
    id_ = identity.fingerprint();
  } else {
    std::random_device bits;
    id_ = uint64_t{bits()} << 32 | bits();
  }
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
        events_.dial_failed(address, reason, reason.find("refused") != reason.npos);
      }));
}

ConnectionManager::Connection* ConnectionManager::adopt(kj::AuthenticatedStream stream,
                                                        Connection&& made, bool tls) {
  if (leaving_) return nullptr;
  auto owned = kj::heap<Connection>(kj::mv(made));
  Connection& c = *owned;
  c.id = ++last_id_;
  if (tls) c.certified = certified_name(*stream.peerIdentity);
  if (tls) c.fingerprint = certified_fingerprint(*stream.peerIdentity);
  // Other threads may wake it until the last, when this board is gone.
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
  if (c.dialled) push(c, options_.self);
  return &c;
}

void ConnectionManager::close(const std::string& node) {
  if (Connection* c = standing(node)) finish(*c, kClosedHere);
}

void ConnectionManager::refuse(Connection& c, const std::string& reason) {
  push(c, Refusal{reason.substr(0, kLineBytes)});
  finish(c, reason);
}

void ConnectionManager::refuse_message(Connection& c, const std::string& reason) {
  refusals_.count(LinkRefusal::message);
  refuse(c, reason);
}

/// From here on the connection is over for all others; it goes when the other end has heard so.
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
  // Later: this is called out of the link's own promises.
  tasks_.add(kj::evalLater([gone = kj::mv(found->second)] {}));
  connections_.erase(found);
  if (leaving_ && connections_.empty() && left_) left_();
}

/// Once for each connection: whoever waits for it hears how it ended.
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
      if (events_.dial_failed) events_.dial_failed(c.address, reason, false);
    } else if (was != Stage::holding && !c.link->gone() && !is_spare(c)) {
      tell_turned_away(c.address, reason);
    }
  }
  if (was == Stage::up || was == Stage::offered) offer_next(c.peer.node);
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

/// Another connection of the same pair stands: nobody was turned away.
bool ConnectionManager::is_spare(const Connection& c) {
  const Connection* other = standing(c.peer.node);
  return other != nullptr && other->peer.id == c.peer.id &&
         other->peer.incarnation == c.peer.incarnation;
}

ConnectionManager::Connection* ConnectionManager::standing(const std::string& node) {
  for (auto& [id, c] : connections_)
    if (c->stage == Stage::up && c->peer.node == node) return c.get();
  return nullptr;
}

}  // namespace grapevine
