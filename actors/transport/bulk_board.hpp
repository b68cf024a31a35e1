// BulkBoard: the bulk links of a node, one per control link that needs one. Runs on the bulk loop;
// the control loop may call the public functions.
//
// The node that dialled the control link dials the bulk link, when either end has a payload to
// send. It shows the token that the other end sent on the control link. Each token is accepted
// once, and returned when its link is over.
#pragma once
#include <kj/compat/tls.h>

#include <map>
#include <memory>

#include "actors/transport/acceptor.hpp"
#include "actors/transport/bulk_link.hpp"
#include "actors/transport/socket_line.hpp"
#include "messages/control.hpp"

namespace grapevine {

class BulkBoard final : kj::TaskSet::ErrorHandler {
 public:
  BulkBoard(Loop&, const LinksOptions&, const LinkEvents&, RefusalCounters&);  // on the bulk loop

  // Called on the control loop, in the order of its events.
  std::shared_ptr<BulkQueue> queue(uint64_t connection);
  void add(std::shared_ptr<Peer>);
  void remove(uint64_t connection);
  void token(uint64_t connection, const BulkToken&);
  void welcome(Knock);

  // Called on any thread.
  /// Reads our end of a memory line until it ends, and passes the other end over the bulk link, if
  /// one is open.
  void lend(std::shared_ptr<LineSocket> here, Descriptor there, LineEvents);

 private:
  struct Line {
    std::shared_ptr<Peer> peer;
    BulkToken token;      // to show, or given to the other end
    uint64_t spent = 0;   // the last one that was shown
    bool wished = false;  // the other end asked: dial when there is a token
    bool asked = false;   // the other end was asked to dial
    uint64_t attempt = 0;
    kj::Own<BulkLink> link;
    kj::Promise<void> dialling = nullptr;
    bool is_dialling = false;
  };

  void post(Loop::Task);
  void want(uint64_t connection);
  void hand_out_token(Line&);
  void on_token(Line&, const BulkToken&);
  void dial_if_wanted(Line&);
  void dial(Line&);
  kj::Promise<BulkStream> connect(const Peer&, const BulkToken&);
  BulkStream wrap(const Knock&);
  struct Greeting;
  kj::Promise<void> greet(Line&, uint64_t token, BulkStream);
  kj::Promise<void> receive(Knock);
  kj::Promise<void> be_greeted(BulkStream);
  void stand(Line&, BulkStream);
  void borrow(std::shared_ptr<Peer>, Descriptor);
  void read_line(std::shared_ptr<LineSocket>, LineEvents);
  void lost(uint64_t connection, const std::string& reason);
  void give_up(Line&, const std::string& reason, bool for_good);
  void say(Line&, const BulkToken&);
  Line* find(uint64_t connection);
  // A connection without a valid token, or a line that is gone.
  void taskFailed(kj::Exception&&) override {}

  Loop& loop_;
  const LinksOptions& options_;
  const LinkEvents& events_;
  RefusalCounters& refusals_;
  std::shared_ptr<void> alive_ = std::make_shared<int>(0);
  kj::Own<kj::TlsContext> tls_;
  LentInAll lent_in_all_;
  std::map<uint64_t, kj::Own<Line>> lines_;
  std::map<uint64_t, uint64_t> tokens_;  // given to other ends: token to connection
  std::map<std::string, int> borrowed_;  // open memory lines, by the lender's name
  std::string unix_name_;                // of the unix socket on which this board listens
  kj::Own<Acceptor> acceptor_;
  kj::TaskSet tasks_;  // last: destroyed first
};

}  // namespace grapevine
