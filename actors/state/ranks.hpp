// Ranks: the ranks of a state actor, and what the parts of the actor share.
//
// Invariants: rank r is at place r / groups, and is here as long as it has a rule. The actor keeps
// the whole state of a rank in its StateRank, so drop() removes all of it. Every call into a rule
// is made in guarded(), because a user's rule may throw: then the rank is dropped.
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/algorithms/method_registry.hpp"
#include "actors/guard/guard.hpp"
#include "actors/guests/guest_seat.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/state/device_turns.hpp"
#include "actors/state/local_steps.hpp"
#include "actors/state/state_dependencies.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

/// A rank, with all its state in this actor.
class StateRank {
 public:
  /// For a rank whose steps scripts compute.
  struct Guest {
    std::shared_ptr<GuestSeat> waits;  // for x, until the round ends
    // Of the script, if it takes several optimizer steps between two answers.
    std::weak_ptr<GuestSeat> ahead;
    uint64_t exchanges = 0;  // or rounds, that have changed x
  };
  /// Fields that only some methods and runs need; made at the first use.
  struct Rest {
    uint64_t epoch = 0;                 // whose neighbours the rule has; not in pairwise methods
    std::vector<Limits> told;           // sent with the messages of the phase, by neighbour
    int without_room = 0;               // how often in a row a phase found no free buffer
    std::unique_ptr<LocalSteps> local;  // null: the rule takes each gradient
    std::optional<Guest> guest;
    double own_s = 0;                       // the time of the rule's pass over the last gradient
    std::map<int, RankRecord::Edge> edges;  // by peer, if the run is recorded
    // From an earlier life; null once it has its first neighbours.
    RankRecordPtr resumed;
  };

  int rank = 0;
  // Of the open round:
  bool copy_due = false;  // a copy goes to the worker at its end
  bool in_round = false;  // it includes the local steps
  bool is_last = false;   // no other round follows
  bool counts = true;     // it ends with a gradient

  std::unique_ptr<Rule> rule;  // null: no rank is here
  CommunicatorActor communicator;
  WorkerActor worker;
  uint64_t gradients = 0;
  Guard guard;

  Rest& rest() {
    if (!rest_) rest_ = std::make_unique<Rest>();
    return *rest_;
  }
  bool has_rest() const { return rest_ != nullptr; }
  LocalSteps* local() const { return rest_ ? rest_->local.get() : nullptr; }
  Guest* guest() const { return rest_ && rest_->guest ? &*rest_->guest : nullptr; }
  void took(double own_s) {
    if (own_s > 0) rest().own_s = own_s;
  }
  double own_s() { return rest_ ? std::exchange(rest_->own_s, 0) : 0; }
  void count_exchange() {
    if (Guest* const its = guest()) ++its->exchanges;
  }

  // REQUIRES: the method's rules have this form.
  PairwiseRule& pairwise() { return static_cast<PairwiseRule&>(*rule); }
  RoundRule& rounds() { return static_cast<RoundRule&>(*rule); }
  CollectiveRule& collective() { return static_cast<CollectiveRule&>(*rule); }

 private:
  std::unique_ptr<Rest> rest_;
};

class Ranks {
 public:
  /// `owner` is the actor with this part.
  Ranks(StateActor::base& owner, StateDependencies, DeviceTurns::Owner);

  StateRank* find(int rank);
  /// The place of this rank, which may be empty.
  StateRank& place_of(int rank);
  std::vector<StateRank>& all() { return ranks_; }
  /// False: work() threw, on_throw was called, and the rank was dropped.
  template <class Work>
  bool guarded(int rank, Work&& work);
  void drop(int rank);
  void clear();

  /// Calls then(rank) when all sums that ask() asked for are known.
  template <class Ask, class Then>
  void foresee(StateRank&, Ask&& ask, Then&& then);
  /// Called in foresee's `then`: continues with then(rank) after it, if the rank is still here.
  template <class Then>
  void afterwards(const StateRank&, Then&& then);

  /// change() changes the sum that gossip conserves: the expected sum gets sign_before (x + x~)
  /// from before it and sign_after (x + x~) from after it.
  template <class Change>
  void audited(StateRank&, double sign_before, double sign_after, Change&& change);
  /// A rank was moved without its peer: the sum is not conserved any more.
  void moves_alone() { moves_alone_ = true; }
  bool keeps_sum() const { return !moves_alone_; }
  ConstVec expected() const { return expected_; }

  /// Empty: none is free.
  Lease slot(SnapshotPool&, Where = Where::current());
  /// Everything that is queued on a device so far; null: it has happened.
  Fence queued(Where = Where::current());

  bool is(Pattern pattern) const { return method.pattern == pattern; }
  double now() const { return deps.clock.now(); }
  const ParameterLayout& layout() const { return deps.objective->layout(); }

  StateActor::base& owner;
  StateDependencies deps;
  const Method& method;
  Execution execution;
  DeviceTurns turns;
  double saved_from_s = 0, saved_until_s = 0;  // the last record of a rank was made

 private:
  std::vector<StateRank> ranks_;
  Buffer expected_;  // fp64: what the sum of x + x~ must be
  bool moves_alone_ = false;
};

template <class Work>
bool Ranks::guarded(int rank, Work&& work) {
  std::string text = "the exception is not a std::exception";
  std::string where = "the rule of rank " + std::to_string(rank);
  try {
    work();
    return true;
  } catch (const std::bad_alloc& e) {
    if (!deps.on_throw) throw;
    if (deps.device) where = "the device of this process";
    text = deps.device ? "it has too little memory left, or is lost" : e.what();
  } catch (const std::exception& e) {
    if (!deps.on_throw) throw;
    text = e.what();
  } catch (...) {
    if (!deps.on_throw) throw;
  }
  deps.on_throw(where, text);
  drop(rank);
  return false;
}

template <class Ask, class Then>
void Ranks::foresee(StateRank& rank, Ask&& ask, Then&& then) {
  turns.foresee(rank.rank, ask, [this, number = rank.rank, then] {
    if (StateRank* here = find(number)) then(*here);
  });
}

template <class Then>
void Ranks::afterwards(const StateRank& rank, Then&& then) {
  turns.afterwards([this, number = rank.rank, then] {
    if (StateRank* here = find(number)) then(*here);
  });
}

template <class Change>
void Ranks::audited(StateRank& rank, double sign_before, double sign_after, Change&& change) {
  const double now = this->now();
  auto add = [&](double sign) {
    if (!deps.audits || sign == 0 || !rank.rule->conserves()) return;
    Buffer sum(execution, expected_.size(), DType::f64);
    rank.rule->add_conserved(now, sum);
    axpy(execution, sign, sum, expected_);
  };
  add(sign_before);
  change();
  add(sign_after);
}

}  // namespace grapevine
