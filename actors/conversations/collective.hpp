// Collective: a ring all-reduce of one vector per round. Every rank waits for all others.
//
// The n ranks form a ring, the vector is cut into n chunks, and part s = 0 .. 2n-3 of a round moves
// one place:
//
//   s <  n-1   rank p sends chunk p-s, receives chunk p-s-1 and adds it          (reduce-scatter)
//   s >= n-1   rank p sends chunk p+1-(s-n+1), receives the one before and keeps it   (all-gather)
//
// Steps per round 2(n-1); bytes per rank 2 (n-1)/n of the vector. If a part does not arrive, a rank
// asks for it and gets it with all later parts. Each rank keeps the last n parts that it sent. No
// more are needed: a rank that sends a part has received the one before, its left neighbour had the
// one before that, and so on around the ring to the right neighbour. A neighbour is at most one
// round ahead. Its messages of later rounds are dropped, as a link might drop them, and are sent
// again on request. If no buffer is free for a part, the part is taken a little later; until it is
// sent, no message arrives that would change it.
//
// A later epoch has other members. The present round is dropped. Some ranks may have finished it
// and others not, so before the next gradient the ranks average the rule's vectors, one per round.
// A rank that had not finished stays one gradient behind. A rank that has taken its gradients
// answers `gone` to further requests. A rank that receives `gone` takes no step in that round
// either.
#pragma once
#include <algorithm>
#include <map>

#include "actors/conversations/conversation.hpp"

namespace grapevine {

struct CollectiveOptions {
  int rank = 0;
  size_t size = 0;  // elements of the vector
  DType dtype = DType::f32;
  int vectors = 1;  // of the rule
  // A part that is this late is requested, then ever more rarely.
  double patience_s = 1e-2;
  double patience_at_end_s = kNever;  // the same in a drain, if less: no rank computes then
  bool finishes = false;              // a drain waits for the end of the present round
};

class Collective final : public Conversation {
 public:
  explicit Collective(const CollectiveOptions& options) : options_(options) {}

  void view(double now, const View&, Effects&) override;
  void timer(double now, int id, Effects&) override;
  void frame(double now, const FrameHeader&, const Payload&, Effects&) override;
  void unsent(double, const FrameHeader&, Effects&) override {}
  void taken(double now, uint64_t ticket, Payload, const Limits&, Effects&) override;
  void judged(int, Guard::Verdict verdict) override {
    ++(verdict == Guard::Verdict::far ? counts_.clipped : counts_.not_finite);
  }
  void step_ready(double now, Messages, Effects&) override;
  void peer_down(double, int, uint32_t, Effects&) override {}
  void drain(double now, Effects&) override;
  void leave(double, Effects&) override {}
  bool quiet() const override { return !options_.finishes || !gradient_in_; }
  const Counts& counts() const override { return counts_; }
  std::vector<EdgeCount> edge_counts() const override;

 private:
  struct Chunk {
    size_t offset = 0, count = 0;
  };

  int parts() const { return 2 * (n_ - 1); }
  int vector() const;            // of the present round
  Chunk chunk(int index) const;  // index modulo n
  Chunk received_chunk(int part) const;
  Chunk sent_chunk(int part) const;
  uint64_t ticket(int part) const;
  void send(int to, FrameKind, uint64_t round, int part, const Payload&, Effects&);
  void send_part(uint64_t round, int part, Payload, Effects&);
  void take(int part, Effects&);
  void answer(const FrameHeader&, Effects&);
  void begin(double now, Effects&);
  void advance(double now, Effects&);
  void finish(double now, int contributions, Effects&);
  double patience() const {
    return draining_ ? std::min(options_.patience_s, options_.patience_at_end_s)
                     : options_.patience_s;
  }
  void wait(double now, double patience_s, Effects&);

  CollectiveOptions options_;
  View view_;
  int n_ = 0, place_ = 0, left_ = 0, right_ = 0;  // n 0: no view yet
  int meetings_ = 0;          // rounds at the start of the epoch that average the rule's vectors
  uint64_t views_ = 0;        // epochs so far
  uint64_t round_ = 0;        // of the epoch: the present one, or the next one
  bool gradient_in_ = false;  // this rank's, which no round has used yet
  bool running_ = false;      // a round is in progress
  bool draining_ = false;
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t gone_from_ = kNone;  // rounds of the epoch that a rank to the left has left out
  int next_part_ = 0;           // the next to receive
  // Parts of the round that were requested from the state and have not come.
  int untaken_ = 0;
  std::vector<int> again_;  // of those, the ones for which no buffer was free
  double patience_s_ = 0, applied_at_ = -1;
  std::map<std::pair<uint64_t, int>, Payload> arrived_, sent_;
  Counts counts_;
};

}  // namespace grapevine
