// GuestSteps: the steps that a script takes for a rank (actors/guests).
//
// Invariant: a rule judges and takes a copy of the script's front (guest_fronts.hpp), or reads each
// number of it once (measured_take()), and the script continues when the rank has answered. A rank
// serves one script at a time.
#pragma once
#include <memory>

#include "actors/state/exchanges.hpp"
#include "actors/state/steps.hpp"

namespace grapevine {

class GuestSteps {
 public:
  GuestSteps(Ranks& ranks, Copies& copies, Exchanges& exchanges, Steps& steps)
      : ranks_(ranks), copies_(copies), exchanges_(exchanges), steps_(steps) {}

  void take_step(TakeStep&);

 private:
  void take_shared_front(StateRank&, std::shared_ptr<GuestSeat>);
  void step_from(StateRank&, std::shared_ptr<GuestSeat>);
  void take_front(StateRank&, std::shared_ptr<GuestSeat>);
  void front_taken(StateRank&, std::shared_ptr<GuestSeat>);

  Ranks& ranks_;
  Copies& copies_;
  Exchanges& exchanges_;
  Steps& steps_;
};

}  // namespace grapevine
