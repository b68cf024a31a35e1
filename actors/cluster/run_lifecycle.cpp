#include "actors/cluster/run_lifecycle.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace grapevine {

namespace {

constexpr double kMuster_s = 1;      // for news of the present nodes, once others have begun
constexpr double kSuspected_s = 15;  // for news of suspects; only one that lies needs longer
constexpr double kRanks_s = 60;      // for ranks that no other node claims
constexpr double kWeigh_s = 5;       // for the snapshot of a node that leaves
constexpr double kLeave_s = 2;       // for data that is under way to others
constexpr double kFarewell_s = 0.1;  // for the news that this node leaves
// Final answers; a single one may come from a process that is about to end.
constexpr int kSure = 3;

}  // namespace

void RunLifecycle::start(double now) {
  if (phase_ == Phase::awaiting) enter(Phase::joining, now + options_.patience_s);
}

void RunLifecycle::dial_failed(const std::string& address, const std::string& why, bool is_final) {
  why_ = why;
  const auto& joins = options_.joins;
  if (std::find(joins.begin(), joins.end(), address) == joins.end()) return;
  int& answers = turned_away_[address];
  answers = is_final ? answers + 1 : 0;
}

bool RunLifecycle::is_turned_away() const {
  return std::all_of(options_.joins.begin(), options_.joins.end(), [this](const auto& address) {
    const auto answers = turned_away_.find(address);
    return answers != turned_away_.end() && answers->second >= kSure;
  });
}

void RunLifecycle::drained(bool failed) {
  drained_ = true;
  leaves_ = leaves_ || failed;
}

void RunLifecycle::averaged(std::vector<std::string> missing) {
  averaged_ = true;
  missing_ = std::move(missing);
}

void RunLifecycle::consider(double now, const MemberTable& table, LifecycleEffects& out) {
  while (step(now, table, out)) {
  }
}

bool RunLifecycle::enter(Phase phase, double deadline_s) {
  phase_ = phase;
  deadline_s_ = deadline_s;
  return true;
}

/// True if it has entered another phase.
bool RunLifecycle::step(double now, const MemberTable& table, LifecycleEffects& out) {
  const bool due = now >= deadline_s_;
  switch (phase_) {
    case Phase::awaiting:
    case Phase::over: return false;
    case Phase::joining: return muster(now, table, out);
    case Phase::fetching:
      if (stops_ || leaves_) return end(out);
      return fetched_ && train(out);
    case Phase::training:
      if (drained_) return enter(Phase::ending, kNoDeadline);
      if (leaves_) {
        out.weigh = true;
        return enter(Phase::weighing, now + kWeigh_s);
      }
      if (!leaves_ && !stops_ && !(share_done_ && everybody_finished(table))) return false;
      return end(out);
    case Phase::weighing:
      if (!weighed_ && !due && !drained_) return false;
      return end(out);
    case Phase::ending:
      if (!drained_) return false;
      if (!begun_ || leaves_) return part(now, out);
      out.average = true;
      return enter(Phase::averaging, kNoDeadline);
    case Phase::averaging:
      if (!averaged_) return false;
      if (deadline_s_ == kNoDeadline) deadline_s_ = now + kSuspected_s;
      if (now < deadline_s_ && misses_a_suspect(table)) return false;
      if (others_train_on(table)) leaves_ = out.goes_alone = true;
      return part(now, out);
    case Phase::left: {
      bool somebody = false;  // a node that has not gone yet
      for (uint32_t k = 1; k < table.size() && !due && !somebody; ++k)
        somebody = table.live(k) && gone_.count(table.at(k).node) == 0;
      if (somebody || (leaves_ && !due)) return false;
      out.conclude = true;
      return enter(Phase::over, kNoDeadline);
    }
  }
  return false;
}

bool RunLifecycle::train(LifecycleEffects& out) {
  out.begin = begun_ = true;
  return enter(Phase::training, kNoDeadline);
}

bool RunLifecycle::end(LifecycleEffects& out) {
  out.drain = !drained_;
  return enter(Phase::ending, kNoDeadline);
}

bool RunLifecycle::part(double now, LifecycleEffects& out) {
  out.leave = true;
  return enter(Phase::left, now + (leaves_ ? kFarewell_s : kLeave_s));
}

bool RunLifecycle::everybody_finished(const MemberTable& table) const {
  for (uint32_t k = 0; k < table.size(); ++k) {
    const Member& m = table.at(k);
    if (!is_over(m) && m.ranks > 0 && !m.finished) return false;
  }
  return true;
}

/// All missing nodes train, and none was asked to stop.
bool RunLifecycle::others_train_on(const MemberTable& table) const {
  if (missing_.empty() || table.stopping()) return false;
  return std::ranges::all_of(missing_, [&](const std::string& node) {
    const auto known = table.find(node);
    if (!known) return false;
    const Member& m = table.at(*known);
    return m.state == MemberState::alive && m.ready && !m.finished;
  });
}

/// Within ten seconds it is known whether an honest suspect is alive, and so whether it trains.
bool RunLifecycle::misses_a_suspect(const MemberTable& table) const {
  return std::ranges::any_of(missing_, [&](const std::string& node) {
    const auto known = table.find(node);
    return known && table.at(*known).state == MemberState::suspect;
  });
}

/// Looks at all members, once per digest of the table.
void RunLifecycle::look(const MemberTable& table) {
  seen_ = {table.digest(), 0, false, true, table.move_to().has_value()};
  for (uint32_t k = 0; k < table.size(); ++k) {
    const Member& m = table.at(k);
    seen_.all_live &= !is_over(m);
    if (is_over(m)) continue;
    // The others are about to get their ranks.
    seen_.ranks += m.first_rank == kAnyRank ? 0 : m.ranks;
    seen_.others_train |= m.ready && k != 0;
  }
}

bool RunLifecycle::muster(double now, const MemberTable& table, LifecycleEffects& out) {
  const Member& self = table.self();
  if (stops_ || leaves_) return end(out);
  const bool met = met_ || options_.joins.empty();
  if (!met && (now > deadline_s_ || is_turned_away())) {
    const char* const what = is_turned_away() ? "refused by " : "no node answers at ";
    const std::string& who = options_.joins_are;
    out.failure = what + options_.joins.front() + (who.empty() ? "" : " (" + who + ")") +
                  (why_.empty() ? "" : ": " + why_);
    return enter(Phase::over, kNoDeadline);
  }
  if (!met) return false;
  if (seen_.digest != table.digest()) look(table);
  if (self.first_rank == kAnyRank || seen_.moves) {
    if (now <= deadline_s_ + kRanks_s) return false;
    out.failure = fmt::format(
        "no ranks for this node: for {} s the other nodes have claimed all that it could take",
        options_.patience_s + kRanks_s);
    return enter(Phase::over, kNoDeadline);
  }
  // One of the nodes that the run waits for begins at the start, even if it learns late that all
  // are there.
  const uint32_t total = options_.total_ranks;
  const bool others_train = seen_.others_train;
  const bool founds =
      self.incarnation == 1 && seen_.all_live && total > 0 && self.first_rank + self.ranks <= total;
  const bool everybody = seen_.ranks >= total;
  if (founds && others_train) muster_until_s_ = std::min(muster_until_s_, now + kMuster_s);
  if (!everybody && now < (others_train && !founds ? 0 : std::min(deadline_s_, muster_until_s_)))
    return false;
  if (!others_train || (founds && everybody)) return train(out);
  out.fetch = true;
  return enter(Phase::fetching, kNoDeadline);
}

}  // namespace grapevine
