// Steps: what a rank does without other ranks: the gradients of its worker, and its inner steps
// (local_steps.hpp).
//
// Invariant: the guard knows the length of every step of a rule before the next exchange is judged.
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
  /// The rule takes base - front as a gradient for its outer optimizer. Then the front is x, or x
  /// after the local part of a round.
  void step_by_front(StateRank&, const GuestFronts::Front&, double lr,
                     std::function<void(StateRank&)> then);
  /// The learning rate of a step of the rule after inner steps, of which there may be none.
  double outer_lr(bool has_done) const;
  /// The run ends: unfinished rounds of inner steps become steps of the rule, and no step follows.
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
  Buffer before_, after_;  // x at a step: its length is measured by them
  Buffer nothing_;         // the gradient of a rank that has none; made when it is first wanted
  bool has_handed_in_ = false;
};

}  // namespace grapevine
