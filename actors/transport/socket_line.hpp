// A MemoryLine over a pair of sockets. The lender passes one of them over the bulk link. Each
// message is one record of a SOCK_SEQPACKET, so any thread writes it whole or not at all. When a
// process ends, its socket ends.
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

/// The state that both halves share: writers on any thread, the reader on the loop.
class LineSocket {
 public:
  enum class End : uint8_t { lender, borrower };

  LineSocket(Descriptor socket, End end, std::shared_ptr<Peer> peer)
      : socket_(std::move(socket)), end_(end), peer_(std::move(peer)) {}

  /// The lender's first message.
  bool offer(const LentMemory&);
  bool send(const LineNote&);
  void finish();
  void close();

  int fd() const { return socket_.fd(); }
  End end() const { return end_; }
  Peer& peer() const { return *peer_; }
  /// For a received note: whether one of this kind could have been sent.
  bool counts(LineNote::Kind);

 private:
  const Descriptor socket_;
  const End end_;
  const std::shared_ptr<Peer> peer_;
  std::atomic<size_t> out_{0};  // loans, as this end knows them
};

/// Runs on the loop.
class LineReader {
 public:
  /// The borrower's reader starts without events: `lent` makes them from the lender's first
  /// message.
  using Lent = decltype(LinkEvents::lent);
  LineReader(Loop&, std::shared_ptr<LineSocket>, uint64_t most_bytes, RefusalCounters&, LineEvents,
             Lent);

  /// Runs until the line ends.
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
  uint64_t slot_bytes_ = 0;  // once the lender has offered
  bool errs_ = false;        // the borrower errs: only its end is awaited
  kj::UnixEventPort::FdObserver observer_;
};

/// A line, for its users.
std::shared_ptr<MemoryLine> handle_of(std::shared_ptr<LineSocket>);

/// Two ends; both empty if the system refuses them.
struct LinePair {
  Descriptor here, there;
};
LinePair make_line_pair();
/// Whether a passed descriptor is such an end.
bool is_line(int fd);

}  // namespace grapevine
