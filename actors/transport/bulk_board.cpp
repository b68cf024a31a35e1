#include "actors/transport/bulk_board.hpp"

#include <kj/debug.h>
#include <openssl/rand.h>

#include "actors/transport/streams.hpp"
#include "actors/transport/tls.hpp"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

constexpr unsigned kUnackedMs = 3000;

uint64_t random_token() {
  uint64_t token = 0;
  while (token == 0)
    GV_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&token), sizeof token) == 1);
  return token;
}

}  // namespace

BulkBoard::BulkBoard(Loop& loop, const LinksOptions& options, const LinkEvents& events)
    : loop_(loop), options_(options), events_(events), tasks_(*this) {
  if (options.key) tls_ = make_tls(*options.key, options.self.node);
}

std::shared_ptr<BulkQueue> BulkBoard::queue(uint64_t connection) {
  return std::make_shared<BulkQueue>(options_.queued_frames, [this, loop = &loop_, connection,
                                                              alive = std::weak_ptr<void>(alive_)] {
    loop->post([this, connection, alive] {
      if (!alive.expired()) want(connection);
    });
  });
}

void BulkBoard::add(std::shared_ptr<Peer> peer) {
  post([this, peer = std::move(peer)] {
    auto line = kj::heap<Line>();
    line->peer = peer;
    auto& at = *line;
    lines_.emplace(peer->connection, kj::mv(line));
    if (!peer->dialled) hand_out_token(at);
  });
}

void BulkBoard::remove(uint64_t connection) {
  post([this, connection] {
    const auto found = lines_.find(connection);
    if (found == lines_.end()) return;
    Line& line = *found->second;
    line.peer->counters.lost += line.peer->bulk->clear(true);
    if (!line.peer->dialled) tokens_.erase(line.token.token);
    lines_.erase(found);
  });
}

void BulkBoard::token(uint64_t connection, const BulkToken& token) {
  post([this, connection, token] {
    if (Line* line = find(connection)) on_token(*line, token);
  });
}

void BulkBoard::welcome(Knock knock) {
  post([this, knock = std::move(knock)] { tasks_.add(receive(knock)); });
}

/// Not when the board is gone: other threads may post until the last.
void BulkBoard::post(Loop::Task task) {
  loop_.post([alive = std::weak_ptr<void>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

BulkBoard::Line* BulkBoard::find(uint64_t connection) {
  const auto found = lines_.find(connection);
  return found == lines_.end() ? nullptr : found->second.get();
}

void BulkBoard::say(Line& line, const BulkToken& token) {
  const auto bytes = encode_control(token);
  GV_CHECK(static_cast<bool>(bytes));
  line.peer->outbox->push(*bytes);
}

void BulkBoard::hand_out_token(Line& line) {
  tokens_.erase(line.token.token);
  line.token = {random_token(), options_.key && options_.bulk_encryption, ""};
  tokens_[line.token.token] = line.peer->connection;
  say(line, line.token);
}

/// A payload waits.
void BulkBoard::want(uint64_t connection) {
  Line* line = find(connection);
  if (line == nullptr) return;
  if (line->link.get() != nullptr) return line->link->flush();
  if (line->peer->dialled) return dial_if_wanted(*line);
  if (!std::exchange(line->asked, true)) say(*line, {});
}

/// The end that dials gets tokens, and a 0 when it shall dial; the other end gets a 0 when a token
/// was spent in vain, and what waited for it is lost.
void BulkBoard::on_token(Line& line, const BulkToken& token) {
  if (line.peer->dialled) {
    if (token.token == 0) {
      line.wished = true;
    } else {
      line.token = token;
    }
    dial_if_wanted(line);
  } else if (token.token == 0 && line.link.get() == nullptr) {
    line.asked = false;
    line.peer->counters.lost += line.peer->bulk->clear(false);
    hand_out_token(line);
  }
}

/// Otherwise when the token has come, or the dial or the link that is under way has ended.
void BulkBoard::dial_if_wanted(Line& line) {
  if (line.link.get() == nullptr && !line.is_dialling && line.token.token != 0 &&
      (line.wished || !line.peer->bulk->empty()))
    dial(line);
}

void BulkBoard::dial(Line& line) {
  line.is_dialling = true;
  line.wished = false;
  const BulkToken token = std::exchange(line.token, {});
  auto connected = kj::evalNow([&] {
    return loop_.timer().timeoutAfter(seconds(options_.connect_s), dial_tcp(line, token));
  });
  line.dialling = connected
                      .then([&line] { line.is_dialling = false; },
                            [this, &line](kj::Exception&&) {
                              line.is_dialling = false;
                              line.peer->counters.lost += line.peer->bulk->clear(false);
                              say(line, {});
                            })
                      .eagerlyEvaluate(nullptr);
}

kj::Promise<void> BulkBoard::dial_tcp(Line& line, BulkToken token) {
  const bool path = is_path(line.peer->address);
  const bool secure =
      tls_.get() != nullptr && !path && (options_.bulk_encryption || token.encrypted);
  return loop_.io()
      .provider->getNetwork()
      .parseAddress(line.peer->address.c_str())
      .then([](kj::Own<kj::NetworkAddress> to) {
        auto connecting = to->connect();
        return connecting.attach(kj::mv(to));
      })
      .then([this,
             secure](kj::Own<kj::AsyncIoStream> plain) -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
        set_options(*plain, kUnackedMs);
        auto& at = *plain;
        return at.write(secure ? kEncryptedBulk : kPlainBulk, kBulkWordBytes)
            .then([this, secure,
                   plain = kj::mv(plain)]() mutable -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
              if (!secure) return kj::mv(plain);
              return tls_->wrapClient(kj::mv(plain), kTlsHost);
            });
      })
      .then([this, &line, secure, path, token](kj::Own<kj::AsyncIoStream> stream) {
        struct Greeting {
          kj::Own<kj::AsyncIoStream> stream;
          BulkRecord mine, theirs;
        };
        auto greeting = kj::heap<Greeting>();
        auto& g = *greeting;
        g.stream = kj::mv(stream);
        g.mine.value = token.token;
        return write_record(*g.stream, g.mine)
            .then([&g] { return read_hello(*g.stream, g.theirs); })
            .then([this, &line, &g, secure, path] {
              stand(line, kj::mv(g.stream),
                    secure ? BulkPath::tls
                    : path ? BulkPath::unix_socket
                           : BulkPath::tcp);
            })
            .attach(kj::mv(greeting));
      });
}

kj::Promise<void> BulkBoard::receive(Knock knock) {
  auto plain = loop_.io().lowLevelProvider->wrapSocketFd(
      kj::mv(*knock.fd),
      kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC | kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  set_options(*plain, kUnackedMs);
  const bool secure = knock.what == Knock::For::encrypted_bulk;
  const bool path = knock.from == "unix";
  const bool must = tls_.get() != nullptr && options_.bulk_encryption && !path;
  if (must != secure && (must || tls_.get() == nullptr)) return kj::READY_NOW;
  auto stream = secure ? tls_->wrapServer(kj::mv(plain))
                       : kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::mv(plain));
  auto greeted = stream.then([this, secure, path](kj::Own<kj::AsyncIoStream> s) {
    return greet(kj::mv(s), secure ? BulkPath::tls : path ? BulkPath::unix_socket : BulkPath::tcp);
  });
  return loop_.timer()
      .timeoutAfter(seconds(options_.connect_s), kj::mv(greeted))
      .then([seat = knock.seat] {});
}

/// The token first: nothing else that a stranger writes is looked at.
kj::Promise<void> BulkBoard::greet(kj::Own<kj::AsyncIoStream> stream, BulkPath path) {
  struct Greeting {
    kj::Own<kj::AsyncIoStream> stream;
    BulkRecord mine, theirs;
  };
  auto greeting = kj::heap<Greeting>();
  auto& g = *greeting;
  g.stream = kj::mv(stream);
  return read_hello(*g.stream, g.theirs)
      .then([this, &g, path]() -> kj::Promise<void> {
        const auto found = tokens_.find(g.theirs.value);
        if (found == tokens_.end()) return kj::READY_NOW;
        const uint64_t connection = found->second;
        tokens_.erase(found);
        return write_record(*g.stream, g.mine).then([this, &g, connection, path] {
          if (Line* line = find(connection)) stand(*line, kj::mv(g.stream), path);
        });
      })
      .attach(kj::mv(greeting));
}

void BulkBoard::stand(Line& line, kj::Own<kj::AsyncIoStream> stream, BulkPath path) {
  const uint64_t connection = line.peer->connection;
  line.asked = false;
  const std::string node = line.peer->hello.node;
  BulkLink::Handlers handlers{
      [this](const FrameHeader& h) { return events_.buffer ? events_.buffer(h) : Lease(); },
      [this, node](Frame frame) {
        if (events_.frame) events_.frame(node, std::move(frame));
      },
      [this, connection](const std::string& reason) { lost(connection, reason); }};
  line.link =
      kj::heap<BulkLink>(kj::mv(stream), path, line.peer, loop_, options_, std::move(handlers));
  line.link->start();
}

/// What waited is lost with it; the next payload opens another.
void BulkBoard::lost(uint64_t connection, const std::string&) {
  Line* line = find(connection);
  if (line == nullptr) return;
  line->peer->counters.lost += line->peer->bulk->clear(false);
  // Later: this is called out of the link's own promises.
  tasks_.add(kj::evalLater([gone = kj::mv(line->link)] {}));
  if (line->peer->dialled) {
    dial_if_wanted(*line);
  } else {
    hand_out_token(*line);
  }
}

}  // namespace grapevine
