// Talker: one end of a pairwise conversation, whose frames a test carries.
#pragma once
#include <functional>
#include <vector>

#include "actors/conversations/pairwise.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine::test {

using Sends = std::vector<Send>;

/// One conversation, whose snapshots are answered at once.
class Talker {
 public:
  Talker(int rank, const std::vector<int>& peers, double alpha_tilde = 0.5, uint64_t epoch = 1,
         uint32_t incarnation = 0)
      : conversation_(options(rank)), pool_(2, DType::f64, 16) {
    View view;
    view.incarnation = incarnation;
    for (const int peer : peers)
      view.edges.push_back({peer, 0, 1, 0});
    learn(0, view, alpha_tilde, epoch);
  }

  Sends learn(double now, View view, double alpha_tilde, uint64_t epoch) {
    view.epoch = epoch;
    view.alpha_tilde = alpha_tilde;
    view_ = view;
    return event(now, [&](Effects& out) { conversation_.view(now, view, out); });
  }
  Sends learn(double now, double alpha_tilde, uint64_t epoch) {
    return learn(now, view_, alpha_tilde, epoch);
  }
  Sends hear(double now, const Send& frame) {
    return event(now,
                 [&](Effects& out) { conversation_.frame(now, frame.header, frame.payload, out); });
  }
  Sends lose(double now, const Send& frame) {  // there is no link
    return event(now, [&](Effects& out) { conversation_.unsent(now, frame.header, out); });
  }
  Sends peer_down(double now, int peer, uint32_t incarnation) {
    return event(now, [&](Effects& out) { conversation_.peer_down(now, peer, incarnation, out); });
  }
  Sends due() {  // its own clock
    const double now = wakes_at_;
    return event(now, [&](Effects& out) { conversation_.timer(now, 0, out); });
  }

  Sends tick(double now) {  // whatever is due
    Sends sends = event(now, [&](Effects& out) { conversation_.timer(now, 0, out); });
    if (repeats_at_ > now) return sends;
    for (const Send& s : event(now, [&](Effects& out) { conversation_.timer(now, 1, out); }))
      sends.push_back(s);
    return sends;
  }

  Sends ask_again() {  // of its only peer
    const double now = repeats_at_;
    return event(now, [&](Effects& out) { conversation_.timer(now, 1, out); });
  }

  double wakes_at() const { return wakes_at_; }
  double repeats_at() const { return repeats_at_; }
  const std::vector<int>& suspects() const { return suspects_; }
  const Counts& counts() const { return conversation_.counts(); }
  bool quiet() const { return conversation_.quiet(); }
  const std::vector<Apply>& jumps() const { return jumps_; }
  void lose_pool() { has_pool_ = false; }
  void expect(const Limits& limits) { limits_ = limits; }
  void judge(int peer, Guard::Verdict verdict) { conversation_.judged(peer, verdict); }
  std::vector<EdgeCount> edge_counts() const { return conversation_.edge_counts(); }

 private:
  static PairwiseOptions options(int rank) {
    PairwiseOptions options;
    options.rank = rank;
    options.most_timeout_s = 1;
    return options;
  }

  Payload snapshot() {
    Payload payload;
    if (!has_pool_) return payload;
    payload.lease = pool_.take();
    payload.writable(DType::f64, payload.lease.vec().size);
    return payload;
  }

  Sends event(double now, const std::function<void(Effects&)>& call) {
    Effects out;
    call(out);
    Sends sends(out.sends.begin(), out.sends.end());
    for (const Arm& a : out.arms)
      (a.timer == 0 ? wakes_at_ : repeats_at_) = a.at;
    suspects_.insert(suspects_.end(), out.suspects.begin(), out.suspects.end());
    for (const auto& request : out.requests) {
      if (const Apply* jump = std::get_if<Apply>(&request)) {
        if (jump->operation != Apply::Operation::jump) continue;
        jumps_.push_back(*jump);
        jumps_.back().sent = jumps_.back().received = {};
        continue;
      }
      const auto ticket = std::get<Take>(request).ticket;
      for (const Send& s : event(now, [&](Effects& more) {
             conversation_.taken(now, ticket, snapshot(), limits_, more);
           }))
        sends.push_back(s);
    }
    return sends;
  }

  Pairwise conversation_;
  SnapshotPool pool_;
  View view_;
  bool has_pool_ = true;
  Limits limits_;
  double wakes_at_ = 0, repeats_at_ = 0;
  std::vector<Apply> jumps_;
  std::vector<int> suspects_;
};

}  // namespace grapevine::test
