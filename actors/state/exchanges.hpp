// Exchanges: the messages that a rank sends to others, and those that it applies.
//
// Invariants: a snapshot is a lease from a fixed pool; if the pool is empty, the lease is empty and
// the exchange is declined. A message is judged before it changes the rank (actors/guard). Both
// ends of a pair judge the same two snapshots by the same limits, so both take the same share. All
// ranks have the same sum of an all-reduce, so all take it or none does.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "actors/state/copies.hpp"
#include "actors/state/ranks.hpp"

namespace grapevine {

class Exchanges {
 public:
  Exchanges(Ranks&, Copies&);

  /// Makes the pool for messages, when the first rank is added.
  void have_messages(StateRank&);
  /// Gives the rank the neighbours of the view.
  void enter(StateRank&, const View&);

  void take(StateRank&, const TakeRequest&);
  void write(StateRank&, int phase);
  void apply(ApplyRequest&);
  /// Starts the exchange of a round, after its local part.
  void begin_round(StateRank&);
  void end_round(StateRank&);

  /// The sum of the norms of jumps whose other half may be missing.
  double broken_after_norm() const { return broken_after_norm_; }

 private:
  struct Chunks {
    RingParts parts;
    std::unique_ptr<SnapshotPool> pool;
  };

  std::unique_ptr<SnapshotPool> pool_of(size_t size, DType, size_t capacity,
                                        SnapshotPool::Memory) const;
  void have_chunks(const RingParts&);
  Lease chunk(size_t count);
  static void note_room(StateRank&, bool has_room);
  void ask_sums(StateRank&, const Apply&);
  void carry_out(StateRank&, Apply&);
  static int sender(StateRank&, size_t places, size_t k);
  void combine(StateRank&, Apply&);
  std::vector<Received> judge_messages(StateRank&, Apply&);
  void judge_pull(StateRank&, int phase, std::vector<Received>, const Limits& of_all);
  void end_phase(StateRank&, int phase, std::span<const Received>);
  double share_of(StateRank&, int peer, const Guard::Judgement&);
  static void note(StateRank&, const ExchangeKey&, double moved);
  void snapshot(StateRank&, const ExchangeKey&, Payload& out);
  Vec ahead_of(StateRank&);
  void jump(StateRank&, Apply&);
  void begin(StateRank&, const Apply&);
  bool judges_sum(const Apply&) const;
  double norm_of_sum(StateRank&);
  void finish(StateRank&, const Apply&);

  Ranks& ranks_;
  Copies& copies_;
  std::vector<Chunks> chunks_;              // one for each range of ring sizes so far
  std::unique_ptr<SnapshotPool> messages_;  // its slots have the size of the rule's largest message
  double broken_after_norm_ = 0;
};

}  // namespace grapevine
