#include "actors/settings/rank_ledger.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace grapevine {

namespace {

constexpr double kBinsAnOctave = 8, kOctaves = 32;  // each way from a second: 0.2 ns to 136 years
constexpr int kToldOfAKind = 8;
constexpr double kLong_s = 0.5;  // shorter gaps do not show a stop of the process

}  // namespace

void StepDurations::add(double seconds, uint64_t steps) {
  if (steps == 0) return;
  const double each = seconds / static_cast<double>(steps);
  const double octaves = each > 0 ? std::clamp(std::log2(each), -kOctaves, kOctaves) : -kOctaves;
  Bin& bin = bins_[static_cast<int>(std::floor(octaves * kBinsAnOctave))];
  bin.steps += steps;
  bin.sum_s += seconds;
  steps_ += steps;
}

double StepDurations::fastest_tenth() const {
  const double wanted = std::max(1.0, static_cast<double>(steps_) / 10);
  double left = wanted, sum_s = 0;
  for (const auto& [number, bin] : bins_) {
    const auto steps = static_cast<double>(bin.steps);
    const double taken = std::min(left, steps);
    sum_s += bin.sum_s * taken / steps;
    if ((left -= taken) <= 0) break;
  }
  return steps_ > 0 ? sum_s / wanted : 0;
}

// --- a rank

double& RankLedger::charged(Doing what) {
  switch (what) {
    case Doing::starting: return part(Part::start);
    case Doing::computing: return spell_s_;
    case Doing::applying: return gap_s_;
    case Doing::waiting: return part(Part::waiting);
    case Doing::lost: return lost_[open_].seconds;
    case Doing::ending: return part(Part::end);
    case Doing::saving: break;
  }
  return part(Part::saving);
}

void RankLedger::charge(double now) {
  const double lasted = std::max(0.0, now - since_s_);
  if (lasted >= kLong_s) long_ = {doing_, false, since_s_, now};
  since_s_ = std::max(since_s_, now);
  charged(doing_) += lasted;
  if (doing_ == Doing::lost) lost_[open_].until_s = since_s_;
}

void RankLedger::turn(Doing next, double now) {
  charge(now);
  if (doing_ == Doing::applying) close_step(0);
  doing_ = next;
}

// The last step has been applied, with the rule's own pass, so the rest of the gap is known.
void RankLedger::close_step(double own_s) {
  const double own = std::min(own_s, gap_s_);
  durations_.add(pending_s_ + own, std::exchange(pending_, 0));
  computing_s_ += own;
  part(gap_) += gap_s_ - own;
  pending_s_ = gap_s_ = 0;
  if (long_.what == Doing::applying) long_.is_of_step = true;
}

void RankLedger::compute(double now) {
  const Lock lock(mutex_);
  if (is_heard()) turn(Doing::computing, now);
}

void RankLedger::computed(double now, uint64_t steps) {
  const Lock lock(mutex_);
  if (!is_heard()) return;
  turn(Doing::applying, now);
  steps_ += steps;
  pending_ = steps;
  pending_s_ = std::exchange(spell_s_, 0);
  computing_s_ += pending_s_;
  if (long_.what == Doing::computing) long_.is_of_step = true;
  if (std::exchange(follows_, true)) longest_s_ = std::max(longest_s_, since_s_ - gap_from_s_);
  gap_from_s_ = since_s_;
}

void RankLedger::wait(double now) {
  const Lock lock(mutex_);
  if (is_heard()) turn(Doing::waiting, now);
}

void RankLedger::applied(double now, double own_s, double saved_from_s, double saved_until_s) {
  const Lock lock(mutex_);
  if (!is_heard() || doing_ != Doing::applying) return;
  charge(now);
  const double overlap = std::min(since_s_, saved_until_s) - std::max(gap_from_s_, saved_from_s);
  const double saved = std::clamp(overlap, 0.0, std::max(0.0, gap_s_ - own_s));
  gap_s_ -= saved;
  part(Part::saving) += saved;
  close_step(own_s);
}

LostTime& RankLedger::account_of(Lost what, double at_s) {
  const auto of_kind = [what](const LostTime& l) { return l.what == what; };
  if (std::count_if(lost_.begin(), lost_.end(), of_kind) < kToldOfAKind)
    return lost_.emplace_back(LostTime{.what = what, .at_s = at_s, .until_s = at_s});
  LostTime& last = *std::find_if(lost_.rbegin(), lost_.rend(), of_kind);
  ++last.times;
  return last;
}

LostTime& RankLedger::open(Lost what, double now, double at_s) {
  if (doing_ != Doing::lost) before_ = doing_;
  turn(Doing::lost, now);
  follows_ = false;
  LostTime& lost = account_of(what, at_s);
  open_ = static_cast<size_t>(&lost - lost_.data());
  return lost;
}

// The node's look at the clock may come before or after the rank's first event after the stop.
void RankLedger::stood_still(double from_s, double until_s) {
  const Lock lock(mutex_);
  if (ended_ || !has_begun_ || doing_ == Doing::lost) return;
  if (since_s_ < until_s) charge(until_s);
  const double overlap = std::min(until_s, long_.until_s) - std::max(from_s, long_.from_s);
  if (overlap < kLong_s) return;
  const bool is_computed = long_.is_of_step && long_.what == Doing::computing;
  double& where = is_computed ? computing_s_ : long_.is_of_step ? part(gap_) : charged(long_.what);
  const double taken = std::min(overlap, where);
  where -= taken;
  if (is_computed) pending_s_ = std::max(0.0, pending_s_ - taken);
  follows_ = false;
  LostTime& lost = account_of(Lost::silence, from_s);
  lost.seconds += taken;
  lost.until_s = until_s;
}

void RankLedger::stand(Lost what, double now, double at_s) {
  const Lock lock(mutex_);
  if (!is_heard() || (doing_ == Doing::lost && lost_[open_].what == what)) return;
  LostTime& lost = open(what, now, at_s);
  // Of a step that is never taken.
  if (what != Lost::pause) lost.seconds += std::exchange(spell_s_, 0);
}

void RankLedger::lose(Lost what, double now) {
  const Lock lock(mutex_);
  if (ended_) return;
  LostTime& lost = open(what, now, now);
  lost.seconds += std::exchange(spell_s_, 0);
  if (!has_begun_) lost.seconds += std::exchange(part(Part::start), 0);
  serves_ = false;
}

void RankLedger::back(double now) {
  const Lock lock(mutex_);
  if (is_heard() && doing_ == Doing::lost) turn(before_, now);
}

void RankLedger::end(double now) {
  const Lock lock(mutex_);
  if (std::exchange(ended_, true)) return;
  const bool is_gone = doing_ == Doing::lost;
  charge(now);
  close_step(0);
  part(Part::end) += std::exchange(spell_s_, 0);
  if (!is_gone) doing_ = Doing::ending;
}

void RankLedger::save(double now) {
  const Lock lock(mutex_);
  charge(now);
  if (doing_ == Doing::ending) doing_ = Doing::saving;
}

void RankLedger::begin(int rank, bool waits) {
  const Lock lock(mutex_);
  serves_ = has_begun_ = true;
  rank_ = rank;
  gap_ = waits ? Part::waiting : Part::exchanges;
}

bool RankLedger::has_begun() {
  const Lock lock(mutex_);
  return has_begun_;
}

RankCost RankLedger::cost(double now) {
  const Lock lock(mutex_);
  charge(now);
  StepDurations durations = durations_;
  durations.add(pending_s_, pending_);
  const auto steps = static_cast<double>(steps_);
  // The mean is below the fastest tenth if a step in durations_ includes a stop of the process.
  const double usual_s = steps_ > 0 ? computing_s_ / steps : 0;
  RankCost cost{.rank = rank_,
                .steps = steps_,
                .fastest_s = std::min(durations.fastest_tenth(), usual_s),
                .usual_s = usual_s,
                .longest_s = longest_s_,
                .seconds = seconds_,
                .lost = lost_};
  const double work_s = steps * cost.fastest_s;
  const auto part_of = [&cost](Part p) -> double& { return cost.seconds[static_cast<size_t>(p)]; };
  part_of(Part::work) = work_s;
  part_of(Part::contention) = std::max(0.0, computing_s_ - work_s);
  part_of(gap_) += gap_s_;
  part_of(Part::end) += spell_s_;
  for (LostTime& lost : cost.lost)
    lost.rank = rank_;
  return cost;
}

std::vector<RankCost> costs_of(Ledgers& ledgers, double now) {
  std::vector<RankCost> costs;
  for (RankLedger& ledger : ledgers)
    if (ledger.has_begun()) costs.push_back(ledger.cost(now));
  return costs;
}

}  // namespace grapevine
