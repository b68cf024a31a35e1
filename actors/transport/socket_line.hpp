// A MemoryLine over a pair of sockets, one of which the lender passes along the bulk link. Each
// message is one record of a SOCK_SEQPACKET, so it is written whole or not at all, by any thread.
// The end of a process is the end of its socket.
//
// Violations of the protocol are counted by their reason. A borrower closes the line to a lender
// that errs. A lender lends no more to a borrower that errs, and waits for the end.
#pragma once
#include <kj/async-unix.h>

#include <atomic>
#include <memory>
#include <string>

#include "actors/transport/loop.hpp"
#include "actors/transport/memory_line.hpp"
#include "actors/transport/peers.hpp"
#include "kernels/base/descriptor.hpp"

namespace grapevine {

/// The state that its two halves share: writers on any thread, the reader on the loop.
class LineSocket {
 public:
  enum class End : uint8_t { lender, borrower };

  LineSocket(Descriptor socket, End end, std::shared_ptr<Peer> peer)
      : socket_(std::move(socket)), end_(end), peer_(std::move(peer)) {}

  /// The lender's first word.
  bool offer(const LentMemory&);
  bool send(const LineNote&);
  void finish();
  void close();

  int fd() const { return socket_.fd(); }
  End end() const { return end_; }
  Peer& peer() const { return *peer_; }
  /// Of a note that has come: whether one of them could have been said.
  bool counts(LineNote::Kind);

 private:
  const Descriptor socket_;
  const End end_;
  const std::shared_ptr<Peer> peer_;
  std::atomic<size_t> out_{0};  // lendings, as this end knows them
};

/// On the loop.
class LineReader {
 public:
  /// The borrower's begins without events: `lent` makes them of the lender's first word.
  using Lent = decltype(LinkEvents::lent);
  LineReader(Loop&, std::shared_ptr<LineSocket>, uint64_t most_bytes, RefusalCounters&, LineEvents,
             Lent);

  /// To the line's end.
  kj::Promise<void> run();

 private:
  enum class Read : uint8_t { later, ended, one };
  Read read_one();
  Read took_offer(const struct LineRecord&, Descriptor);
  Read took_note(const struct LineRecord&);
  Read refuse(LinkRefusal);

  std::shared_ptr<LineSocket> socket_;
  const uint64_t most_bytes_;
  RefusalCounters& refusals_;
  LineEvents events_;
  Lent lent_;
  uint64_t slot_bytes_ = 0;  // of a lender that has offered
  bool errs_ = false;        // the borrower: its end alone is awaited
  kj::UnixEventPort::FdObserver observer_;
};

/// The part of a line that its users see.
std::shared_ptr<MemoryLine> handle_of(std::shared_ptr<LineSocket>);

/// Two ends; both empty where the system grants none.
struct LinePair {
  Descriptor here, there;
};
LinePair make_line_pair();
/// Whether a descriptor that came from elsewhere is such an end.
bool is_line(int fd);

}  // namespace grapevine
