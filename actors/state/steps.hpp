// Steps: what a rank does without other ranks: it takes the gradients of its worker, and inner
// steps (local_steps.hpp).
//
// Invariant: the guard knows the length of every step of a rule before it judges the next exchange.
#pragma once
#include <functional>

#include "actors/state/exchanges.hpp"
#include "actors/state/ranks.hpp"

namespace grapevine {

class Steps {
 public:
  Steps(Ranks& ranks, Copies& copies, Exchanges& exchanges)
      : ranks_(ranks), copies_(copies), exchanges_(exchanges) {}

  void gradient(Gradient&);
  /// The rule takes base - front as a gradient for its outer optimizer. The front becomes x, or x
  /// after the local part of a round.
  void step_by_front(StateRank&, const GuestFronts::Front&, double lr,
                     std::function<void(StateRank&)> then);
  /// The learning rate of the rule's step after a round of inner steps, which may be empty.
  double outer_lr(bool has_done) const;
  /// At the end of the run: unfinished rounds of inner steps become steps of the rule. No step
  /// follows.
  void hand_all_in();
  void clear();

 private:
  template <class Step, class Then>
  void measured(StateRank&, double now, Step&& step, ConstVec x_after, Then&& then);
  double step_length(StateRank&, ConstVec x_after);
  ConstVec read(const Gradient&);
  void local_step(StateRank&, Gradient&);
  void hand_over(StateRank&, bool wants_copy);
  void hand_in(StateRank&);

  Ranks& ranks_;
  Copies& copies_;
  Exchanges& exchanges_;
  Buffer before_, after_;  // x before and after a step, to measure its length
  Buffer nothing_;         // the gradient of a rank without one; made at the first use
  bool has_handed_in_ = false;
};

}  // namespace grapevine
