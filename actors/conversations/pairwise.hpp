// Pairwise: two neighbours agree on an exchange, by messages alone, and both apply it exactly once.
//
//   OFFER -> ACCEPT or DECLINE;  both snapshot and send DATA at once;  each applies the jump of the
//   two snapshots that crossed, then ACKs.
//
// Exchanges are numbered per edge and nothing is cancelled: whoever learns that the other end is in
// number k joins k. Hence (i) an end enters k only when both have settled k-1; (ii) it leaves k
// only when it has applied k and knows that the peer has; (iii) repeats of ASK and ACCEPT make a
// lagging end join; (iv) `applied` and k <= done stop a second application. So a lost, repeated or
// crossing frame is harmless. Every offer is answered at once, a rank with an open offer still
// accepts others, and a dead or slow peer costs one time-out, once.
//
// Two pairings share it. `poisson`: a Poisson clock per edge, kept by its lower rank: the process
// of Nabli, Belilovsky, Oyallon (A2CiD2, NeurIPS 2023). `free`: each rank's own clock (1/w +- 10 %,
// w the sum of its edges' wanted rates) and a partner among its least recently used neighbours,
// never one of the last floor(d/2).
#pragma once
#include <memory>

#include "actors/conversations/conversation.hpp"
#include "kernels/random.hpp"

namespace grapevine {

enum class Pairing { free, poisson };

struct PairwiseOptions {
  Pairing pairing = Pairing::free;
  int rank = 0;
  uint64_t seed = 1;
  double round_trip_s = 1e-3;  // expected before the first answer
  double duration_s = 1e-2;    // expected of an exchange, before the first
  double least_timeout_s = 1e-6;
  double most_timeout_s = kNever;  // an answer that came after a standstill says little of the next
  // Controls for experiments: what the protocol forbids, and why.
  bool allow_repeats = false;  // partners may repeat: the ranks split into pairs
  int exchanges_at_once = 1;   // two at once diverge
};

class Pairwise final : public Conversation {
 public:
  explicit Pairwise(const PairwiseOptions& options);

  void view(double now, const View&, Effects&) override;
  void timer(double now, int id, Effects&) override;
  void frame(double now, const FrameHeader&, const Payload&, Effects&) override;
  void taken(double now, uint64_t ticket, Payload, Effects&) override;
  void step_ready(double, Messages, Effects&) override {}
  void peer_down(double now, int peer, Effects&) override;
  void drain(double now, Effects&) override;
  bool quiet() const override;
  const Counts& counts() const override { return counts_; }
  std::vector<EdgeCount> edge_counts() const override;

 private:
  struct Exchange {  // an open one, number done + 1
    uint64_t epoch = 0;
    double alpha_tilde = 0.5, peer_alpha_tilde = 0.5;
    bool taking = true, applied = false, acked = false;
    bool owes_accept = false;  // once the snapshot is there
    double sent_at = 0;
    Payload sent, received;
  };

  struct End {  // this rank's end of one edge; ranks have many, few of them open
    int peer = 0;
    uint32_t peer_incarnation = 0;
    bool in_graph = true;
    bool offered = false;
    bool lapsed = false;                     // of an offer: nobody waits for it
    bool caller = false;                     // the peer was declined here and waits
    uint32_t attempt = 0, peer_attempt = 0;  // of the latest offer, own and peer's
    uint32_t backlog = 0;                    // poisson: rings not yet served
    int backoff = 1;
    uint64_t done = 0;  // last number settled
    uint64_t exchanges = 0;
    double applied_at = -1;
    double wanted_rate = 0;
    double offered_at = 0, opened_at = 0;  // last
    double not_before = 0, rings_at = kNever;
    double rtt = 0, rtt_var = 0, duration = 0;
    std::unique_ptr<Exchange> open;

    bool idle() const { return !offered && !open; }
  };

  // Timers: 0 is the rank's own; of end e, 1 + 2e repeats frames and 2 + 2e is its Poisson clock.
  static constexpr int kWake = 0;
  int index_of(const End& e) const { return static_cast<int>(&e - ends_.data()); }
  void arm_repeat(const End& e, double at, Effects& out) const {
    out.arms.push_back({1 + 2 * index_of(e), at});
  }

  End* find(int peer);
  End& add_end(const EdgeView&, double now);
  void send(End&, FrameKind, uint64_t number, Effects&, DeclineReason = DeclineReason::none);
  void ring(double now, End&, Effects&);
  void wind_up(double from, End&, Effects&);
  void consider(double now, Effects&);
  void consider_rings(double now, Effects&);
  void offer(double now, End&, Effects&);
  DeclineReason refusal(double now, const End&);
  void open(double now, End&, uint64_t epoch, bool owes_accept, Effects&);
  void apply(double now, End&, Effects&);
  void settle(double now, End&, Effects&);
  void abandon(double now, End&, Effects&);
  void release(double now, End&);
  void learn_round_trip(double now, End&);
  void on_offer(double now, End&, const FrameHeader&, Effects&);
  void on_accept(double now, End&, const FrameHeader&, Effects&);
  void on_data(double now, End&, const FrameHeader&, const Payload&, Effects&);
  ExchangeKey key(const End&) const;
  void repeat(double now, End&, Effects&);

  double usual() const;     // least of the last four durations; infinite before the first
  double interval() const;  // between two exchanges of this rank, as it really is
  bool is_busy(double now) const;
  double busy_until(double now) const;
  int usable(double now) const;
  bool is_fresh(double now, const End&) const;
  double patience_end() const;
  double ask_again_at(double now) const;
  double timeout(const End&) const;
  double least_timeout() const;

  PairwiseOptions options_;
  Random random_;
  uint64_t epoch_ = 0;
  uint32_t incarnation_ = 0;
  double alpha_tilde_ = 0.5;  // advice for the next exchange
  std::vector<End> ends_;
  std::vector<int> last_partners_;  // free: latest last
  double rate_ = 0;                 // w: sum of the wanted rates of the edges in the graph
  int degree_ = 0;
  double due_ = 0, last_open_ = 0;
  int offered_to_ = -1;  // end with our unlapsed offer
  double durations_[4] = {};
  int durations_known_ = 0;
  bool started_ = false, draining_ = false;
  Counts counts_;
};

}  // namespace grapevine
