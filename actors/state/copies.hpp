// Copies: the parameters at which workers and scripts compute their next step.
//
// Invariants: a worker gets a lease from a fixed pool, which has one for each rank beside those of
// exchanges. A script gets its front, which only the script touches until its next step. A worker
// or script that waits until a round is over gets its copy from pay().
#pragma once
#include <memory>

#include "actors/state/guest_fronts.hpp"
#include "actors/state/ranks.hpp"

namespace grapevine {

class Copies {
 public:
  explicit Copies(Ranks&);

  /// Empty: none is left.
  Lease slot() { return ranks_.slot(*snapshots_); }
  /// The parameters for the worker's next gradient.
  Lease read(StateRank&);
  void send(StateRank&, Lease copy);
  /// To the worker or the script, whichever takes the steps of the rank.
  void pay(StateRank&);
  void fetch(const Fetch&);

  /// The script's front becomes x, and goes to it.
  void show(StateRank&, std::shared_ptr<GuestSeat>);
  /// The front as it is now goes to the script.
  void hand_over(StateRank&, std::shared_ptr<GuestSeat>);
  GuestFronts& fronts() { return fronts_; }
  void clear() { fronts_.clear(); }

 private:
  Ranks& ranks_;
  std::unique_ptr<SnapshotPool> snapshots_;
  GuestFronts fronts_;
};

}  // namespace grapevine
