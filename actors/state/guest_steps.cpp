#include "actors/state/guest_steps.hpp"

#include <cmath>
#include <utility>

namespace grapevine {

void GuestSteps::take_step(TakeStep& step) {
  StateRank* rank = ranks_.find(step.rank);
  if (rank == nullptr) return;
  std::optional<StateRank::Guest>& guest = rank->rest().guest;
  if (!guest) guest.emplace();
  if (guest->waits != nullptr) {  // a round is open, from a script that has left
    guest->waits = std::move(step.seat);
    return;
  }
  const bool takes_several = ranks_.deps.inner || step.seat->optimizer_steps > 1;
  guest->ahead = takes_several ? step.seat : nullptr;
  if (!std::exchange(step.seat->steps, false)) {
    step.seat->finite = 1;
    if (ranks_.deps.device) fill(ranks_.execution, 1, copies_.fronts().of(step.seat).finite);
    return copies_.show(*rank, std::move(step.seat));
  }
  if (!ranks_.deps.inner && ranks_.is(Pattern::pairwise) && rank->pairwise().measures_steps())
    return take_shared_front(*rank, std::move(step.seat));
  copies_.fronts().bring(step.rank, step.seat, [this, number = step.rank, seat = step.seat] {
    if (StateRank* here = ranks_.find(number)) step_from(*here, seat);
  });
}

void GuestSteps::take_shared_front(StateRank& rank, std::shared_ptr<GuestSeat> seat) {
  ranks_.audited(rank, -1, 1, [&] {
    rank.guard.stepped(rank.pairwise().measured_take(ranks_.now(), seat->front, seat->base,
                                                     {&seat->finite, 1, DType::f64}));
  });
  ++rank.gradients;
  copies_.answer(rank, std::move(seat), rank.gradients);
}

// REQUIRES: the front is in the memory of the rank.
void GuestSteps::step_from(StateRank& rank, std::shared_ptr<GuestSeat> seat) {
  const auto fronts = [this, seat] { return copies_.fronts().of(seat); };
  const auto length = [this, fronts] {
    const auto [front, base, finite] = fronts();
    return std::sqrt(square_distance(ranks_.execution, front, base));
  };
  if (ranks_.deps.inner)
    return steps_.step_by_front(rank, fronts(), steps_.outer_lr(true),
                                [this, seat](StateRank& r) { front_taken(r, seat); });
  if (ranks_.is(Pattern::collective)) return take_front(rank, std::move(seat));
  ranks_.foresee(rank, length, [this, length, seat](StateRank& r) {
    r.guard.stepped(length());
    if (!ranks_.deps.device) return take_front(r, seat);
    ranks_.afterwards(r, [this, seat](StateRank& later) { take_front(later, seat); });
  });
}

void GuestSteps::take_front(StateRank& rank, std::shared_ptr<GuestSeat> seat) {
  ranks_.audited(rank, -1, 1, [&] {
    const auto [front, base, finite] = copies_.fronts().of(seat);
    rank.rule->take(ranks_.now(), front, base, finite);
  });
  front_taken(rank, std::move(seat));
}

void GuestSteps::front_taken(StateRank& rank, std::shared_ptr<GuestSeat> seat) {
  if (!ranks_.is(Pattern::pairwise)) {
    rank.copy_due = true;
    rank.guest()->waits = std::move(seat);
    return exchanges_.begin_round(rank);
  }
  ++rank.gradients;
  copies_.hand_over(rank, std::move(seat));
}

}  // namespace grapevine
