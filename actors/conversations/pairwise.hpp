// Pairwise: the conversation of methods whose ranks average in pairs. It connects the ends of a
// rank's edges (pair_exchange.hpp: exactly once) with its policy (partner_policy.hpp: when, and
// with which rank).
//
// Every offer is answered at once. A rank with an open offer still accepts others. A dead or slow
// peer costs one time-out, once.
#pragma once
#include "actors/conversations/partner_policy.hpp"

namespace grapevine {

class Pairwise final : public Conversation {
 public:
  explicit Pairwise(const PairwiseOptions& options);

  void view(double now, const View&, Effects&) override;
  void timer(double now, int id, Effects&) override;
  void frame(double now, const FrameHeader&, const Payload&, Effects&) override;
  void unsent(double now, const FrameHeader&, Effects&) override;
  void taken(double now, uint64_t ticket, Payload, const Limits&, Effects&) override;
  void judged(int peer, Guard::Verdict) override;
  void step_ready(double, Messages, Effects&) override {}
  void peer_down(double now, int peer, uint32_t incarnation, Effects&) override;
  void drain(double, Effects&) override { policy_.drain(); }
  void leave(double now, Effects&) override;
  bool quiet() const override;
  const Counts& counts() const override { return counts_; }
  std::vector<EdgeCount> edge_counts() const override;

 private:
  using Next = PairExchange::Next;

  // Timers: 0 is the rank's own; of partner p, 1 + 2p repeats frames and 2 + 2p is its Poisson
  // clock.
  static constexpr int kWake = 0;
  int index_of(const Partner& p) const { return static_cast<int>(&p - partners_.data()); }
  int repeats(const Partner& p) const { return 1 + 2 * index_of(p); }
  int clock(const Partner& p) const { return 2 + 2 * index_of(p); }

  Moment at(double now, Effects& out) { return {now, own_, counts_, out}; }
  Partner* find(int peer);
  Partner& add(const EdgeView&, double now);
  void consider(double now, Effects&);
  void offer(double now, Partner&, Effects&);
  void open(double now, Partner&, uint64_t epoch, bool accept_due, Effects&);
  void answer(double now, Partner&, const FrameHeader&, Effects&);
  void go_on(double now, Partner&, Next, Effects&);
  void lapse(double now, Partner&, Effects&);
  void repeat(double now, Partner&, Effects&);
  void release(double now, const Partner&);
  void abandon(double now, Partner&, Effects&);

  double round_trip_s_, duration_s_;  // expected for a new neighbour
  PairRank own_;
  PartnerPolicy policy_;
  Partners partners_;
  Counts counts_;
};

}  // namespace grapevine
