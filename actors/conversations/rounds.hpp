// Rounds: every rank sends one message per phase to each neighbour, step by step.
//
// The step of a gradient arrives as the messages of its first phase, and the conversation sends
// them. When the senders' messages of the same number have arrived, they are combined. Then the
// next phase or the next gradient follows. Each rank numbers its phases from 0 in each epoch. So a
// change of the graph needs no barrier: two ranks that learn of it at different times meet at
// number 0, and the present step is written again for the new neighbours. Messages of an older
// epoch are refused; those of a newer one wait for its view.
//
//   waits        If a message does not arrive, a rank asks for it. Its sender sends it again or, if
//                the method continues without lost messages, answers that it is gone. If no buffer
//                is free for the messages of a phase, the phase is written again a little later.
//   not waits    A rank combines at once the newest message of each neighbour that has arrived
//                since its last step, and then sends. No rank waits, and a later message replaces a
//                lost one.
//
// Messages go along the edges of the graph or, one at a time, to the method's partners among all
// live ranks (algorithms/method_registry.hpp). Cost per rank and phase: one frame to each receiver.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "actors/conversations/conversation.hpp"
#include "topologies/schedule.hpp"

namespace grapevine {

struct RoundsOptions {
  int rank = 0;
  int phases = 1;  // of a step
  bool waits = true;
  bool resends = true;  // false: a lost message is gone
  // The receiver and the sender of a phase, as places among all live ranks; the rank's own place:
  // none. Empty: the neighbours. And the number of phases that another rank may be behind this one.
  std::function<OnePeer(int place, int ranks, uint64_t phase)> partners = {};
  std::function<int(int ranks)> most_behind = {};
  double patience_s = 1e-2;  // a message that is this late is requested, then after twice as long
  double patience_at_end_s = kNever;  // the same in a drain, if less: no rank computes then
  // A drain waits for the end of the present step. Neighbours in a later step than this rank are
  // told at once that it takes no part.
  bool finishes = false;
};

class Rounds final : public Conversation {
 public:
  explicit Rounds(const RoundsOptions& options) : options_(options) {}

  void view(double now, const View&, Effects&) override;
  void timer(double now, int id, Effects&) override;
  void frame(double now, const FrameHeader&, const Payload&, Effects&) override;
  void unsent(double, const FrameHeader&, Effects&) override {}
  void taken(double, uint64_t, Payload, const Limits&, Effects&) override {}
  void judged(int peer, Guard::Verdict) override;
  void step_ready(double now, Messages, Effects&) override;
  void peer_down(double, int, uint32_t, Effects&) override {}  // a new epoch follows
  void drain(double, Effects&) override;
  void leave(double, Effects&) override {}
  bool quiet() const override { return !options_.finishes || !active_; }
  const Counts& counts() const override { return counts_; }
  std::vector<EdgeCount> edge_counts() const override;

 private:
  struct Arrived {
    uint64_t number = 0;
    Payload payload;  // empty: it is gone
    Limits limits;
  };
  struct Peer {
    int rank = 0;
    uint32_t incarnation = 0;
    uint64_t used = 0;  // messages combined
    double used_at = -1;
    uint64_t next = 0;  // not waits: one after the newest number that came
    uint64_t clipped = 0, not_finite = 0;
    std::vector<Arrived> arrived = {};
  };
  struct Sent {
    uint64_t number = 0;
    int to = 0;
    Payload payload;
    Limits limits;
  };
  struct Early {  // of an epoch that has not begun here
    FrameHeader header;
    Payload payload;
  };

  Peer* find(int rank);
  void ask_anew(Effects&);
  uint64_t kept() const;
  void choose_peers();
  void send_message(const Peer&, uint64_t number, const Payload&, const Limits&, Effects&);
  void send(const Peer&, FrameKind, uint64_t number, Effects&, DeclineReason = DeclineReason::none);
  void arrive(double now, Peer&, const FrameHeader&, const Payload&, Effects&);
  bool never_used(uint64_t number) const;
  void answer(Peer&, const FrameHeader&, Effects&);
  void excuse(Effects&);
  void step_at_once(double now, Messages, Effects&);
  void send_out(Messages&, Effects&);
  void advance(double now, Effects&);
  void use(double now, Peer&);
  void combine(std::vector<Arrived> incoming, Effects&);
  static void put(Arrived, Apply&);
  double patience() const {
    return draining_ ? std::min(options_.patience_s, options_.patience_at_end_s)
                     : options_.patience_s;
  }
  void wait(double now, double patience_s, Effects&);

  RoundsOptions options_;
  View view_;
  std::vector<Peer> peers_;                  // neighbours; with partners: all live ranks in order
  size_t place_ = 0;                         // with partners: this rank's
  std::vector<size_t> receivers_, senders_;  // of the present phase: indices of peers
  uint64_t number_ = 0;                      // of the present phase, or the next
  int phase_ = 0;                            // of the step
  bool active_ = false;                      // a step is open
  bool sent_now_ = false;                    // its messages of this phase have been sent
  bool asked_ = false;                       // they are being written again
  bool draining_ = false;
  double patience_s_ = 0;
  std::vector<Sent> sent_;  // of the last phases, for requests
  std::vector<Early> early_;
  Counts counts_;
};

}  // namespace grapevine
