// PairExchange: one end of one edge of a pairwise method. Both ends apply every exchange of the
// edge exactly once. partner_policy.hpp decides when to offer and which offers to refuse.
//
//   OFFER -> ACCEPT or DECLINE;  both snapshot and send DATA at once;  each applies the jump of the
//   two snapshots that crossed, then ACKs.
//
// Exchanges are numbered per edge, and nothing is cancelled: an end that learns that the other end
// is in number k joins k. Hence (i) an end enters k only when both have finished k-1; (ii) it
// leaves k only when it has applied k and knows that the peer has; (iii) repeats of ASK and ACCEPT
// make a lagging end join; (iv) `applied` and k <= done prevent a second application. So a lost,
// repeated or crossing frame is harmless.
//
// Numbers are valid as long as the incarnations of the two ends. If they differ by more (after a
// crash or a lie), they can never agree. An end that receives only such numbers starts again, with
// a new incarnation on this edge alone, which the other end accepts. An end's incarnation is its
// rank's incarnation plus the number of times that it has started again.
//
// A state machine without I/O. Decisions that need more knowledge are returned as Next, and the
// owner makes them.
#pragma once
#include <algorithm>
#include <memory>

#include "actors/conversations/conversation.hpp"
#include "kernels/base/smoothed_time.hpp"

namespace grapevine {

/// State shared by all ends of a rank.
struct PairRank {
  int rank = 0;
  uint32_t incarnation = 0;
  uint64_t epoch = 0;
  double alpha_tilde = 0.5;  // for the next exchange
  double least_timeout_s = 0, most_timeout_s = kNever;
};

/// One event at an end: its time, its rank, and where its counts and effects go.
struct Moment {
  double now;
  const PairRank& own;
  Counts& counts;
  Effects& out;
};

class PairExchange {
 public:
  /// The owner's next task after an event.
  enum class Next : uint8_t {
    nothing,
    answer,    // an offer that may be refused: call open() or decline()
    open,      // the peer is in the exchange, so this end joins: call open()
    declined,  // the peer has declined this end's offer
    applied,   // the jump is on its way to the state; the rank is free for other exchanges
    finished,  // this number is over; a frame of the next one has to be passed to hear() again
    renewed,   // this end has started again
  };

  PairExchange(int peer, uint32_t incarnation, uint32_t peer_incarnation, double round_trip_s,
               double duration_s);

  // --- actions of the owner
  void offer(const Moment&, int timer, double patience_s);
  /// REQUIRES: not open. `accept_due`: the peer waits for an ACCEPT.
  void open(const Moment&, uint64_t epoch, bool accept_due, uint64_t ticket);
  void decline(const Moment&, const FrameHeader& offer, DeclineReason);
  void lapse() { lapsed_ = true; }  // of an offer: this rank no longer waits for its answer

  // --- events
  Next hear(const Moment&, const FrameHeader&, const Payload&, int timer);
  /// Data for an exchange that opened after hear().
  Next receive(const Moment&, const FrameHeader&, const Payload&, int timer);
  /// The snapshot, or no snapshot. Without one, this end has left the exchange again and has told
  /// the peer.
  Next taken(const Moment&, Payload, const Limits&, int timer);
  /// Sends the unanswered frames again, and waits twice as long, at most `cap_s`.
  void repeat(const Moment&, int timer, double cap_s);
  /// The other end is gone, or this end has a new incarnation: an open exchange is broken.
  void abandon(const Moment&);
  void meet(uint32_t peer_incarnation);                  // call abandon() first
  void rise(uint32_t ranks_before, uint32_t ranks_now);  // likewise; this rank's own

  int peer() const { return peer_; }
  uint32_t incarnation() const { return incarnation_; }
  uint32_t peer_incarnation() const { return peer_incarnation_; }
  bool idle() const { return !offered_ && !open_; }
  bool offered() const { return offered_; }
  bool lapsed() const { return lapsed_; }
  bool is_open() const { return open_ != nullptr; }
  bool taking() const { return open_ && open_->taking; }
  bool applied() const { return open_ && open_->applied; }
  bool waits_for_answer() const;  // an ACCEPT may come
  bool silent() const;            // the peer has answered neither an offer nor its repeat
  uint64_t done() const { return done_; }
  double offered_at() const { return offered_at_; }
  double opened_at() const { return opened_at_; }
  void set_opened_at(double at) { opened_at_ = at; }  // sets the first order of the neighbours
  uint64_t exchanges() const { return exchanges_; }
  double applied_at() const { return applied_at_; }
  double timeout(const PairRank& own) const {
    return std::min(round_trip_.most_s(), own.most_timeout_s);
  }

 private:
  struct Open {  // number done + 1
    uint64_t epoch = 0;
    double alpha_tilde = 0.5, peer_alpha_tilde = 0.5;
    Limits limits, peer_limits;
    bool taking = true, applied = false, acked = false;
    bool accept_due = false;              // ACCEPT is sent with the snapshot
    double sent_at = 0, repeated_at = 0;  // repeated_at: the last repeat except offers; 0: none
    Payload sent, received;
  };

  struct Row {  // the latest frames in a row with the same wrong number
    uint64_t number = 0;
    uint32_t to_incarnation = 0, length = 0;
  };

  void send(const Moment&, FrameKind, uint64_t number, DeclineReason = DeclineReason::none);
  ExchangeKey key() const;
  bool is_row(const FrameHeader&);
  Next stray(const Moment&, const FrameHeader&);
  Next misaddressed(const Moment&, const FrameHeader&);
  Next renew(const Moment&, uint32_t incarnation);
  void learn_round_trip(const Moment&);
  Next hear_offer(const Moment&, const FrameHeader&);
  Next hear_accept(const Moment&, const FrameHeader&);
  Next apply(const Moment&, int timer);
  Next finish(const Moment&, int timer);

  int peer_;
  uint32_t incarnation_, peer_incarnation_;
  uint32_t attempt_ = 0, peer_attempt_ = 0;  // of the latest offer of each end
  uint32_t backoff_ : 24 = 1;
  bool offered_ : 1 = false, lapsed_ : 1 = false;
  uint64_t done_ = 0;  // the last finished number
  uint64_t exchanges_ = 0;
  double applied_at_ = -1;
  double offered_at_ = 0, opened_at_ = 0;  // the latest times
  SmoothedTime round_trip_;
  double duration_;
  std::unique_ptr<Open> open_;
  std::unique_ptr<Row> strays_;
};

}  // namespace grapevine
