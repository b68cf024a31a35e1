// LocalSteps: what a rank does alone between two steps of its rule.
//
// The rank is its own guest (actors/guests): its gradients move a front by an inner optimizer, and
// after so many of them the rule takes what was done to the front since it was base as a gradient
// of its outer optimizer. A round ends where the rank's count of gradients is a multiple of the
// inner steps, so that ranks that have counted alike end theirs together, whenever they came.
//
// An exchange of a pair sends the front in place of x, and moves x, front and base alike. So
// base - front stays the sum of the inner steps, and both ranks go on from the mean of all that
// both have done. (If x were sent, a rank would average its own unfinished steps with parameters
// from before the other's. If the front stayed, its steps would descend once more the distance
// that the exchange has removed.)
//
// Owned and called by the state actor. All vectors are the rank's own and go nowhere but with it.
#pragma once
#include <memory>

#include "actors/algorithms/optimizer.hpp"
#include "actors/algorithms/rule.hpp"
#include "models/objective.hpp"

namespace grapevine {

class LocalSteps {
 public:
  LocalSteps(const Execution&, const ParameterLayout&, const InnerSteps&);

  Vec front() { return front_; }
  Vec base() { return base_; }
  Vec finite() { return finite_; }  // as Rule::take() has it

  /// A round begins at the rule's x.
  void begin(double now, Rule&);
  bool has_begun() const { return has_begun_ || taken_ > 0; }
  /// Steps that are in the front and not in the rule.
  uint64_t taken() const { return taken_; }
  /// Whether the step behind so many others ends its round.
  bool ends_round(uint64_t gradients) const { return (gradients + 1) % count_ == 0; }
  /// copy = front. The first steps of a rank that has come while others train are shorter, since
  /// its optimizer has seen nothing yet.
  void step(double lr, ConstVec g, Vec copy);
  /// Moves front and base as an exchange has moved the rule's x.
  void follow(double now, Rule&);
  /// The rule has taken the front.
  void end_round();

  /// The rank has come while others train.
  void warm_up() { warm_up_ = count_; }
  /// Names what a rank has here, which follows it.
  void name(RuleState&);

 private:
  Execution execution_;
  uint64_t count_;
  Buffer front_, base_, finite_;
  Optimizer optimizer_;
  uint64_t taken_ = 0, warm_up_ = 0;  // steps left of it
  bool has_begun_ = false;            // the front is where the round has come to
};

/// Of a rank of the objective; null: it takes none, or they are a script's.
std::unique_ptr<LocalSteps> local_steps_of(const Execution&, const Objective&, const InnerSteps&);

/// All that a rank keeps: its rule, and what it does alone, if it does; null: it does not.
RuleState state_of(double now, Rule&, LocalSteps*);

}  // namespace grapevine
