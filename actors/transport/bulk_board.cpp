#include "actors/transport/bulk_board.hpp"

#include <kj/debug.h>
#include <openssl/rand.h>

#include "actors/transport/local_socket.hpp"
#include "actors/transport/streams.hpp"
#include "actors/transport/tls.hpp"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

uint64_t random_token() {
  uint64_t token = 0;
  while (token == 0)
    GV_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&token), sizeof token) == 1);
  return token;
}

}  // namespace

BulkBoard::BulkBoard(Loop& loop, const LinksOptions& options, const LinkEvents& events,
                     RefusalCounters& refusals)
    : loop_(loop), options_(options), events_(events), refusals_(refusals), tasks_(*this) {
  if (options.key)
    tls_ = make_tls(make_identity(*options.key, options.self.node, *options.own_key));
  if (!options.same_host) return;
  const std::string name = random_name();
  const auto listening = listen_on_name(name);
  if (!listening) return;  // then all payloads go by TCP
  unix_name_ = name;
  acceptor_ = kj::heap<Acceptor>(listening->fd, loop, options.connect_s, [this](Knock knock) {
    if (knock.what == Knock::For::plain_bulk) tasks_.add(receive(std::move(knock)));
  });
}

std::shared_ptr<BulkQueue> BulkBoard::queue(uint64_t connection) {
  return std::make_shared<BulkQueue>(
      options_.queued_frames,
      [this, inbox = loop_.inbox(), connection, alive = std::weak_ptr<void>(alive_)] {
        inbox->post([this, connection, alive] {
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
    if (!peer->bulk->empty()) want(peer->connection);  // it was woken before the line existed
  });
}

void BulkBoard::remove(uint64_t connection) {
  post([this, connection] {
    const auto found = lines_.find(connection);
    if (found == lines_.end()) return;
    Line& line = *found->second;
    give_up(line, "the control link ended", true);
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

/// Drops the task if the board is gone: other threads may post until the end.
void BulkBoard::post(Loop::Task task) {
  loop_.post([alive = std::weak_ptr<void>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

BulkBoard::Line* BulkBoard::find(uint64_t connection) {
  const auto found = lines_.find(connection);
  return found == lines_.end() ? nullptr : found->second.get();
}

/// Ignores the outbox's bound: there are few tokens, and without them no payload can be sent.
void BulkBoard::say(Line& line, const BulkToken& token) {
  const auto bytes = encode_control(token);
  GV_CHECK(static_cast<bool>(bytes));
  line.peer->outbox->push(*bytes, Outbox::Bound::none);
}

void BulkBoard::hand_out_token(Line& line) {
  tokens_.erase(line.token.token);
  line.asked = false;
  line.token = {random_token(), options_.key && options_.bulk_encryption, unix_name_};
  tokens_[line.token.token] = line.peer->connection;
  say(line, line.token);
  if (!line.peer->bulk->empty()) want(line.peer->connection);
}

/// A payload waits for the link.
void BulkBoard::want(uint64_t connection) {
  Line* line = find(connection);
  if (line == nullptr) return;
  if (line->link.get() != nullptr) return line->link->flush();
  if (line->peer->dialled) return dial_if_wanted(*line);
  if (!std::exchange(line->asked, true)) say(*line, {});
}

/// The end that dials gets tokens, and 0 if it has to dial. It returns a token that did not lead to
/// a link, or whose link has ended: the other end may not have noticed, and sends the next token.
void BulkBoard::on_token(Line& line, const BulkToken& token) {
  if (line.peer->dialled) {
    if (token.token == 0) {
      line.wished = true;
    } else {
      line.token = token;
    }
    dial_if_wanted(line);
  } else if (token.token == line.token.token) {
    give_up(line, "the other end could not dial, or lost the connection", false);
    hand_out_token(line);
  }
}

/// Dials at once, or later when the token arrives or the present dial or link ends.
void BulkBoard::dial_if_wanted(Line& line) {
  if (line.link.get() == nullptr && !line.is_dialling && line.token.token != 0 &&
      (line.wished || !line.peer->bulk->empty()))
    dial(line);
}

void BulkBoard::dial(Line& line) {
  line.is_dialling = true;
  line.wished = false;
  const BulkToken token = std::exchange(line.token, {});
  line.spent = token.token;
  auto connected = kj::evalNow([&] {
    return loop_.timer().timeoutAfter(
        seconds(options_.connect_s),
        connect(*line.peer, token).then([this, &line, token](BulkStream made) {
          return greet(line, token.token, kj::mv(made));
        }));
  });
  const uint64_t connection = line.peer->connection;
  line.dialling = connected
                      .then([] {},
                            [this, &line](kj::Exception&& e) {
                              give_up(line, reason_of(e), false);
                              say(line, {line.spent, false, {}});
                            })
                      .then([this, &line, connection] {
                        line.is_dialling = false;
                        // Meanwhile a token or a request may have come, or the link may have ended.
                        post([this, connection] {
                          if (Line* still = find(connection)) dial_if_wanted(*still);
                        });
                      })
                      .eagerlyEvaluate(nullptr);
}

/// The other end's unix socket answers only in our network namespace, so only on our host.
kj::Promise<BulkStream> BulkBoard::connect(const Peer& peer, const BulkToken& token) {
  if (options_.same_host && is_random_name(token.same_host)) {
    if (const int fd = connect_to_name(token.same_host); fd >= 0)
      return wrap({std::make_shared<kj::AutoCloseFd>(fd), Knock::For::plain_bulk, "unix", {}});
  }
  const bool path = is_path(peer.address);
  const bool secure =
      tls_.get() != nullptr && !path && (options_.bulk_encryption || token.encrypted);
  return connect_stream(loop_, tls_.get(), peer.address, secure ? kEncryptedBulk : kPlainBulk,
                        secure)
      .then([secure, path](kj::AuthenticatedStream made) {
        return BulkStream{kj::mv(made.stream), nullptr,
                          secure ? BulkPath::tls
                          : path ? BulkPath::unix_socket
                                 : BulkPath::tcp};
      });
}

BulkStream BulkBoard::wrap(const Knock& knock) {
  constexpr auto kFlags =
      kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC | kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK;
  auto& provider = *loop_.io().lowLevelProvider;
  if (knock.from == "unix") {
    auto stream = provider.wrapUnixSocketFd(kj::mv(*knock.fd), kFlags);
    auto* same = stream.get();
    return {kj::mv(stream), same, BulkPath::unix_socket};
  }
  auto stream = provider.wrapSocketFd(kj::mv(*knock.fd), kFlags);
  set_options(*stream);
  return {kj::mv(stream), nullptr, BulkPath::tcp};
}

/// Each end sends a hello.
struct BulkBoard::Greeting {
  BulkStream made;
  BulkRecord mine, theirs;
};

kj::Promise<void> BulkBoard::greet(Line& line, uint64_t token, BulkStream made) {
  auto greeting = kj::heap<Greeting>();
  auto& g = *greeting;
  g.made = kj::mv(made);
  g.mine.value = token;
  kj::Promise<void> said = kj::READY_NOW;
  if (g.made.unix_socket != nullptr) said = g.made.stream->write(kPlainBulk, kBulkWordBytes);
  return said.then([&g] { return write_record(*g.made.stream, g.mine); })
      .then([&g] { return read_hello(*g.made.stream, g.theirs); })
      .then([this, &line, &g] { stand(line, kj::mv(g.made)); })
      .attach(kj::mv(greeting));
}

kj::Promise<void> BulkBoard::receive(Knock knock) {
  const bool secure = knock.what == Knock::For::encrypted_bulk;
  const bool must = tls_.get() != nullptr && options_.bulk_encryption && knock.from != "unix";
  if (must && !secure) refusals_.count(LinkRefusal::plain);
  if ((must && !secure) || (secure && tls_.get() == nullptr)) return kj::READY_NOW;
  BulkStream made = wrap(knock);
  kj::Promise<BulkStream> ready = nullptr;
  if (secure) {
    ready = tls_->wrapServer(kj::mv(made.stream)).then([](kj::Own<kj::AsyncIoStream> stream) {
      return BulkStream{kj::mv(stream), nullptr, BulkPath::tls};
    });
  } else {
    ready = kj::mv(made);
  }
  auto greeted = ready.then([this](BulkStream stream) { return be_greeted(kj::mv(stream)); });
  return loop_.timer()
      .timeoutAfter(seconds(options_.connect_s), kj::mv(greeted))
      .then([slot = knock.slot] {});
}

/// Reads the token first. Nothing else of a connection without a valid token is read.
kj::Promise<void> BulkBoard::be_greeted(BulkStream made) {
  auto greeting = kj::heap<Greeting>();
  auto& g = *greeting;
  g.made = kj::mv(made);
  return read_hello(*g.made.stream, g.theirs)
      .then([this, &g]() -> kj::Promise<void> {
        const auto found = tokens_.find(g.theirs.value);
        if (found == tokens_.end()) {
          refusals_.count(LinkRefusal::token);
          return kj::READY_NOW;
        }
        const uint64_t connection = found->second;
        tokens_.erase(found);
        return write_record(*g.made.stream, g.mine).then([this, &g, connection] {
          if (Line* line = find(connection)) stand(*line, kj::mv(g.made));
        });
      })
      .attach(kj::mv(greeting));
}

void BulkBoard::stand(Line& line, BulkStream made) {
  const uint64_t connection = line.peer->connection;
  if (line.link.get() != nullptr) give_up(line, "replaced by a newer connection", false);
  line.asked = line.wished = false;
  line.link = kj::heap<BulkLink>(
      kj::mv(made), line.peer, loop_, options_, events_, refusals_, lent_in_all_,
      [this, peer = line.peer](Descriptor passed) { borrow(peer, std::move(passed)); },
      [this, connection](const std::string& reason) { lost(connection, reason); });
  line.link->start();
}

// --- memory lines, which outlive the links over which they were opened

void BulkBoard::lend(std::shared_ptr<LineSocket> here, Descriptor there, LineEvents events) {
  post([this, here = std::move(here), there = std::make_shared<Descriptor>(std::move(there)),
        events = std::move(events)] {
    read_line(here, events);
    Line* line = find(here->peer().connection);
    if (line != nullptr && line->link.get() != nullptr) line->link->pass(std::move(*there));
  });
}

/// One line may be in use, and others may still be read after their links have ended.
void BulkBoard::borrow(std::shared_ptr<Peer> peer, Descriptor passed) {
  constexpr int kMost = 4;
  int& standing = borrowed_[peer->hello.node];
  if (standing >= kMost) return refusals_.count(LinkRefusal::memory);
  ++standing;
  read_line(
      std::make_shared<LineSocket>(std::move(passed), LineSocket::End::borrower, std::move(peer)),
      {});
}

void BulkBoard::read_line(std::shared_ptr<LineSocket> socket, LineEvents events) {
  const bool borrows = socket->end() == LineSocket::End::borrower;
  auto reader = kj::heap<LineReader>(loop_, socket, options_.max_payload_bytes, refusals_,
                                     std::move(events), events_.lent);
  auto read = reader->run().attach(kj::mv(reader));
  const auto ended = [this, borrows, node = socket->peer().hello.node] {
    if (borrows && --borrowed_[node] == 0) borrowed_.erase(node);
  };
  tasks_.add(read.then([ended] { ended(); }, [ended](kj::Exception&&) { ended(); }));
}

void BulkBoard::lost(uint64_t connection, const std::string& reason) {
  Line* line = find(connection);
  if (line == nullptr) return;
  give_up(*line, reason, false);
  if (line->peer->dialled) {
    say(*line, {line->spent, false, {}});
    dial_if_wanted(*line);
  } else {
    hand_out_token(*line);
  }
}

/// Waiting payloads are lost with the connection; the next payload opens a new one.
void BulkBoard::give_up(Line& line, const std::string& reason, bool for_good) {
  uint64_t frames = line.peer->bulk->clear(for_good);
  if (line.link.get() != nullptr) {
    frames += line.link->under_way();
    line.link->stop();
    line.peer->counters.bulk = BulkPath::none;
    // Later: the link's own promises may call this.
    tasks_.add(kj::evalLater([gone = kj::mv(line.link)] {}));
  }
  line.peer->counters.lost += frames;
  if (events_.bulk_ended && (frames > 0 || !for_good))
    events_.bulk_ended(line.peer->hello.node, frames, reason);
}

}  // namespace grapevine
