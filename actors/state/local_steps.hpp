// LocalSteps: the steps that a rank takes alone between two steps of its rule.
//
// The rank is its own guest (actors/guests). An inner optimizer applies its gradients to a front.
// After `count` gradients the rule takes base - front as a gradient for its outer optimizer. A
// round ends when the rank's number of gradients is a multiple of the inner steps. So ranks with
// equal numbers end their rounds together, whenever they joined.
//
// A pairwise exchange sends the front instead of x, and moves x, front and base alike. So base -
// front stays the sum of the inner steps, and both ranks continue from the mean of all their steps.
// (If x were sent, a rank would average its own unfinished steps with parameters from before the
// other's. If the front stayed, its steps would undo the exchange's change of x a second time.)
//
// The state actor owns and calls it. All vectors belong to the rank.
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
  Vec finite() { return finite_; }  // as in Rule::take()

  /// Starts a round at the rule's x.
  void begin(double now, Rule&);
  bool has_begun() const { return has_begun_ || taken_ > 0; }
  /// The steps that the front has and the rule does not.
  uint64_t taken() const { return taken_; }
  /// Whether the step after this number of gradients ends its round.
  bool ends_round(uint64_t gradients) const { return (gradients + 1) % count_ == 0; }
  /// Writes the front to `copy`. The first steps of a rank that joins while others train are
  /// shorter, because its optimizer has no history yet.
  void step(double lr, ConstVec g, Vec copy);
  /// Moves front and base by the exchange's change of the rule's x.
  void follow(double now, Rule&);
  /// The rule has taken the front.
  void end_round();

  /// For a rank that joins while others train.
  void warm_up() { warm_up_ = count_; }
  /// Adds the rank's vectors and numbers to its state.
  void name(RuleState&);

 private:
  Execution execution_;
  uint64_t count_;
  Buffer front_, base_, finite_;
  Optimizer optimizer_;
  uint64_t taken_ = 0, warm_up_ = 0;  // warm_up_: the steps that are left of it
  bool has_begun_ = false;            // a round has begun
};

/// The local steps of a rank of the objective. Null: there are none, or a script computes the
/// steps.
std::unique_ptr<LocalSteps> local_steps_of(const Execution&, const Objective&, const InnerSteps&);

/// The whole state of a rank: its rule and its local steps, if it has any.
RuleState state_of(double now, Rule&, LocalSteps*);

}  // namespace grapevine
