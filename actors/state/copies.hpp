// Copies: the parameters for the next step of workers and scripts.
//
// Invariants: a worker gets a lease from a fixed pool, which has one lease per rank besides those
// of exchanges. A script gets its front, which no other actor touches until the next step. If a
// worker or script waits for the end of a round, pay() sends its copy.
#pragma once
#include <memory>

#include "actors/state/guest_fronts.hpp"
#include "actors/state/ranks.hpp"

namespace grapevine {

class Copies {
 public:
  explicit Copies(Ranks&);

  /// Empty: the pool is empty.
  Lease slot() { return ranks_.slot(*snapshots_); }
  /// The parameters for the worker's next gradient.
  Lease read(StateRank&);
  void send(StateRank&, Lease copy);
  /// Sends a copy to the worker or the script of the rank.
  void pay(StateRank&);
  void fetch(const Fetch&);

  /// Writes x into the script's front and answers the script.
  void show(StateRank&, std::shared_ptr<GuestSeat>);
  /// Answers the script with its front as it is now.
  void hand_over(StateRank&, std::shared_ptr<GuestSeat>);
  /// The script has the front already.
  void answer(const StateRank&, std::shared_ptr<GuestSeat>, uint64_t gradients);
  GuestFronts& fronts() { return fronts_; }
  void clear() { fronts_.clear(); }

 private:
  Ranks& ranks_;
  std::unique_ptr<SnapshotPool> snapshots_;
  GuestFronts fronts_;
};

}  // namespace grapevine
