// RunEnd: the conversation that ends the run of the ranks here and collects its outcome.
//
//   workers         report, and begin no other gradient
//   state actors    hand in: unfinished inner steps become steps of the rules
//   communicators   begin no other exchange, and report until no exchange is half-done
//   state actors    report the parameters of all ranks, mixed to one time
//
// Each line waits for the one above. An exchange whose peer is gone may stay half-done: after many
// reports without progress its ranks are collected as they are.
#pragma once
#include <optional>

#include "actors/node/node_ranks.hpp"

namespace grapevine {

class RunEnd {
 public:
  /// `owner` is the actor with this part. Both others outlive it.
  RunEnd(NodeActor::base& owner, const NodeDependencies&, NodeRanks&);

  /// The outcome has this failure.
  void fail(Error why) { outcome_.failure = std::move(why); }
  void fail(Alarm divergence, Error why);

  /// From now on the ranks here stay as they are. Calls `done` with the outcome.
  void begin();
  bool has_begun() const { return has_begun_; }
  /// The next look at the communicators, at the node's tick.
  void look();

  static constexpr int kLook = 0;  // the id of that tick

 private:
  void hand_in();
  void drain();
  void look_again();
  void collect();
  void conclude();

  NodeActor::base& owner_;
  const NodeDependencies& deps_;
  NodeRanks& ranks_;
  bool has_begun_ = false;
  int looks_ = 0;         // without progress
  uint64_t applied_ = 0;  // exchanges, at the last look
  Outcome outcome_;
};

}  // namespace grapevine
