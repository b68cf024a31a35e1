#include "actors/state/steps.hpp"

#include <cmath>
#include <utility>

namespace grapevine {

void Steps::clear() {
  before_ = Buffer();
  after_ = Buffer();
}

// --- the length of a rank's own steps

// Measures a step: step() changes x, and its length is |x after - x before|, with x as gradients
// see it. If the step itself writes x, `x_after` is that vector. Calls then(rank) when the guard
// knows the length.
template <class Step, class Then>
void Steps::measured(StateRank& rank, double now, Step&& step, ConstVec x_after, Then&& then) {
  if (ranks_.is(Pattern::collective)) {  // the guard judges its gradient instead
    step();
    return then(rank);
  }
  const ParameterLayout& layout = ranks_.layout();
  if (before_.size() == 0) before_ = Buffer(ranks_.execution, layout.size(), layout.dtype());
  rank.rule->read(now, before_);
  step();
  ranks_.foresee(
      rank, [&] { step_length(rank, x_after); },
      [this, x_after, then](StateRank& r) {
        r.guard.stepped(step_length(r, x_after));
        if (!ranks_.deps.device) return then(r);
        ranks_.afterwards(r, then);
      });
}

double Steps::step_length(StateRank& rank, ConstVec x_after) {
  const Execution& execution = ranks_.execution;
  if (ranks_.is(Pattern::rounds)) {
    const ConstVec u = rank.rounds().step();
    if (u) return std::sqrt(dot(execution, u, u));
  }
  if (x_after) return std::sqrt(square_distance(execution, x_after, before_));
  const ParameterLayout& layout = ranks_.layout();
  if (after_.size() == 0) after_ = Buffer(execution, layout.size(), layout.dtype());
  const bool reads = !ranks_.deps.device || !execution.workspace->answers();
  if (reads) rank.rule->read(ranks_.now(), after_);
  return std::sqrt(square_distance(execution, after_, before_));
}

// --- gradients

ConstVec Steps::read(const Gradient& gradient) {
  if (gradient.g) return gradient.g.vec();
  if (nothing_.size() == 0) {
    nothing_ = Buffer(ranks_.execution, ranks_.layout().size(), ranks_.layout().dtype());
    fill(ranks_.execution, 0, nothing_);
  }
  return nothing_.vec();
}

void Steps::gradient(Gradient& g) {
  StateRank* rank = ranks_.find(g.rank);
  if (rank == nullptr) return;
  if (rank->local() != nullptr) return local_step(*rank, g);
  const double now = ranks_.now();
  const double lr = ranks_.deps.inner ? outer_lr(static_cast<bool>(g.g)) : g.lr;
  if (!ranks_.is(Pattern::pairwise)) {
    const auto step = [&] {
      ranks_.audited(*rank, -1, 1, [&] { rank->rule->on_gradient(now, lr, read(g), {}); });
    };
    measured(*rank, now, step, {}, [this, now, wants_copy = g.wants_copy](StateRank& r) {
      r.took(ranks_.now() - now);
      r.copy_due = wants_copy;
      exchanges_.begin_round(r);
    });
    if (ranks_.deps.device && g.g) g.g.read_by(ranks_.queued());
    return;
  }
  Lease copy = g.wants_copy ? copies_.slot() : Lease{};
  const Vec x_after = copy ? copy.writable() : Vec{};
  const auto then = [this, now](StateRank& r) { r.took(ranks_.now() - now); };
  if (rank->pairwise().measures_steps()) {
    ranks_.audited(*rank, -1, 1, [&] {
      rank->guard.stepped(rank->pairwise().measured_step(now, lr, read(g), x_after));
    });
    then(*rank);
  } else {
    const auto step = [&] {
      ranks_.audited(*rank, -1, 1, [&] { rank->rule->on_gradient(now, lr, read(g), x_after); });
    };
    measured(*rank, now, step, x_after, then);
  }
  if (ranks_.deps.device) {
    const Fence stepped = ranks_.queued();
    if (g.g) g.g.read_by(stepped);
    if (copy) copy.set_ready(stepped);
  }
  ++rank->gradients;
  if (g.wants_copy) copies_.send(*rank, std::move(copy));
}

// --- inner steps

// If a rank has taken no inner step, its rule takes no step in a round with others: that step would
// be one of the momentum alone. In an all-reduce all ranks take the same step.
double Steps::outer_lr(bool has_done) const {
  return has_done || ranks_.is(Pattern::collective) ? ranks_.deps.inner.outer_lr : 0;
}

void Steps::local_step(StateRank& rank, Gradient& g) {
  if (has_handed_in_ || rank.in_round) return;
  LocalSteps& local = *rank.local();
  if (!local.has_begun()) local.begin(ranks_.now(), *rank.rule);
  const bool ends_round = g.is_last || local.ends_round(rank.gradients);
  Lease copy = g.wants_copy && !ends_round ? copies_.slot() : Lease{};
  const double now = ranks_.now();
  local.step(g.lr, read(g), copy ? copy.writable() : Vec{});
  rank.took(ranks_.now() - now);
  if (ranks_.deps.device) {
    const Fence stepped = ranks_.queued();
    if (g.g) g.g.read_by(stepped);
    if (copy) copy.set_ready(stepped);
  }
  if (ends_round) {
    rank.is_last = g.is_last;
    return hand_over(rank, g.wants_copy);
  }
  ++rank.gradients;
  if (g.wants_copy) copies_.send(rank, std::move(copy));
}

void Steps::hand_over(StateRank& rank, bool wants_copy) {
  LocalSteps& local = *rank.local();
  rank.in_round = true;
  step_by_front(rank, {local.front(), local.base(), local.finite()}, outer_lr(local.taken() > 0),
                [this, wants_copy](StateRank& r) {
                  r.local()->end_round();
                  r.copy_due = wants_copy;
                  if (!ranks_.is(Pattern::pairwise)) return exchanges_.begin_round(r);
                  exchanges_.end_round(r);
                  if (wants_copy) copies_.send(r, copies_.read(r));
                });
}

void Steps::step_by_front(StateRank& rank, const GuestFronts::Front& of, double lr,
                          std::function<void(StateRank&)> then) {
  const double now = ranks_.now();
  const auto step = [&] {
    ranks_.audited(rank, -1, 1,
                   [&] { rank.rule->take_as_gradient(now, lr, of.front, of.base, of.finite); });
  };
  measured(rank, now, step, of.front, std::move(then));
}

// If ranks wait for each other, a rank without inner steps takes part in the common round.
void Steps::hand_in(StateRank& rank) {
  LocalSteps& local = *rank.local();
  const bool waits = !ranks_.is(Pattern::pairwise) && ranks_.method.waits;
  const bool has_done = local.taken() > 0;
  if (rank.in_round || rank.is_last || (!has_done && !waits)) return;
  if (!local.has_begun()) local.begin(ranks_.now(), *rank.rule);
  rank.is_last = true;
  rank.counts = false;
  hand_over(rank, false);
}

void Steps::hand_all_in() {
  has_handed_in_ = true;
  for (const StateRank& each : ranks_.all()) {
    if (!each.rule || each.local() == nullptr) continue;
    const auto serve = [this, rank = each.rank] {
      ranks_.guarded(rank, [&] {
        if (StateRank* here = ranks_.find(rank)) hand_in(*here);
      });
    };
    ranks_.turns.is_held(each.rank) ? ranks_.turns.wait(each.rank, serve) : serve();
  }
}

}  // namespace grapevine
