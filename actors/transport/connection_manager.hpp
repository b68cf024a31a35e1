// ConnectionManager: all control connections of a node, from the first byte to the last. Runs on
// the control loop.
//
// A connection begins with a Hello in each direction. If a pair of nodes has opened several
// connections, the two names decide which one is used, whichever node dialled. The node with the
// higher name offers one (Agree) if it knows of no other that is used or offered, and holds the
// rest. The node with the lower name confirms it with its own Agree. So an offer tells the lower
// node that any link it still has is gone, and no message is sent on a connection that the other
// end may drop.
//
// A process has a key and a name. Each Hello has a new challenge, and each Agree signs both
// challenges, so every linked process has proved its key. If one process of a name has a link,
// another process of that name waits until the first has been pinged: if the first answers, the
// second is refused, otherwise it takes its place. If there is no link but the membership knows the
// process of this name, another process is refused until that one is dead.
#pragma once
#include <kj/compat/tls.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "actors/transport/acceptor.hpp"
#include "actors/transport/control_link.hpp"
#include "actors/transport/peers.hpp"

namespace grapevine {

class BulkBoard;

class ConnectionManager final : kj::TaskSet::ErrorHandler {
 public:
  /// Takes the listening socket. `listens_tcp`: if there is a key, incoming connections use TLS.
  ConnectionManager(Loop&, BulkBoard&, PeerTable&, RefusalCounters&, const LinksOptions&,
                    const LinkEvents&, int listen_fd, bool listens_tcp);
  ~ConnectionManager();

  void dial(const std::string& address);
  void close(const std::string& node);
  void know(const std::string& node, uint64_t id);
  void reply(uint64_t console, const ConsoleReply&);
  /// Sends a bye to all peers and then reports nothing; calls `done` when they are closed or time
  /// is up.
  void leave(std::function<void()> done);

 private:
  enum class Stage { hello, holding, second, offered, awaiting, up, console, ending };
  struct Connection {
    uint64_t id = 0;
    bool dialled = false;
    std::string address;           // that was dialled, or of the incoming connection
    std::string certified;         // the name in the other end's certificate
    PublicKey certified_key = {};  // both empty without TLS
    Hello self;                    // this node's hello on it
    AdmissionSlot slot;
    Stage stage = Stage::hello;
    Hello peer;
    std::shared_ptr<Outbox> outbox;
    std::shared_ptr<Peer> entry;  // once up
    kj::Own<ControlLink> link;
    kj::TimePoint measured = kj::origin<kj::TimePoint>();  // the round trip
    kj::Promise<void> deadline = nullptr;
    bool asks = false;  // a console whose last answer is not complete
    // Of a console: the time of its last message.
    kj::TimePoint heard_at = kj::origin<kj::TimePoint>();
    bool challenged = false;  // another process of its name waits for its answer
    bool is_other = false;    // not the process that the membership knows by this name
    bool is_own = false;      // dialled by this host: a name on trial is this host's too
    kj::Promise<void> patience = nullptr;
  };

  kj::Promise<void> welcome(Knock);
  Connection* adopt(kj::AuthenticatedStream, Connection&&, bool tls);

  // The handshake.
  void on_message(Connection&, std::span<const std::byte>);
  void shake(Connection&, ControlMessage&);
  void on_hello(Connection&, const Hello&);
  std::string disagreement(const Connection&, const Hello&) const;
  void make_room();
  void try_offer(Connection&);
  void take_agree(Connection&);
  bool is_contested(const Hello&) const;
  Agree agree_with(const Connection&) const;
  void challenge(Connection& first, Connection& second);
  void answered(Connection&);
  void offer_next(const std::string& node);
  void stand(Connection&);

  void on_peer_message(Connection&, ControlMessage&&, size_t bytes);
  void on_console_message(Connection&, ControlMessage&&);
  void refuse(Connection&, const std::string& reason);          // tells both ends
  void refuse_message(Connection&, const std::string& reason);  // the same, and counts it
  // After the queued messages are sent.
  void finish(Connection&, const std::string& reason);
  void on_closed(uint64_t id, const std::string& reason);
  void report_end(Connection&, const std::string& reason);
  void tell_unresolved(const std::string& address);
  void tell_turned_away(const std::string& from, const std::string& reason);
  bool push(Connection&, const ControlMessage&);
  Connection* find(uint64_t id);
  Connection* standing(const std::string& node);
  bool is_spare(const Connection&);
  void taskFailed(kj::Exception&&) override {}  // each task handles its own errors

  Loop& loop_;
  BulkBoard& bulk_;
  PeerTable& peers_;
  RefusalCounters& refusals_;
  const LinksOptions& options_;
  const LinkEvents& events_;
  const bool listens_tcp_;
  std::shared_ptr<void> alive_ = std::make_shared<int>(0);
  kj::Own<kj::TlsContext> tls_;
  uint64_t last_id_ = 0;
  std::map<std::string, uint64_t> owners_;  // the process of each name, from the membership
  bool leaving_ = false;
  std::set<std::string> unresolved_;  // addresses that were reported
  kj::TimePoint told_since_;
  int told_ = 0;
  std::function<void()> left_;
  std::map<uint64_t, kj::Own<Connection>> connections_;
  kj::Own<Acceptor> acceptor_;
  kj::TaskSet tasks_;  // last: destroyed first
};

}  // namespace grapevine
