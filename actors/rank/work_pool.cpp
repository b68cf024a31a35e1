#include "actors/rank/work_pool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

// Between two reports of a member: the longest usual time, and the longest that few exceed.
constexpr double kNewsAtMost_s = 2, kFewNewsAtMost_s = 4;
constexpr double kSilent = 4;                           // usual times between two reports
constexpr double kTellLeast_s = 0.05, kTellMost_s = 1;  // between two reports of this process
constexpr double kAtOnce = 8, kTurn_s = 1;              // ranks that begin again, and how often
constexpr double kTellsUntilTheEnd = 10;
// Ranks know the progress, and with it the learning rate, to a part of this. All members together
// make no more than one report in kTellLeast_s for it.
constexpr double kTellsInARun = 200;
constexpr uint64_t kTellsAPace = 2;  // a pace is known after so many reports
constexpr double kAboveSeen = 2;     // a member's pace, of the one at which its credit grows
constexpr double kLateAtMost_s = 8;
constexpr double kClocksDrift = 1e-3;  // two clocks, of one another

}  // namespace

WorkPool::WorkPool(uint64_t gradients, uint64_t before, int ranks_here, double fastest)
    : wanted_(gradients), ranks_(ranks_here), fastest_(fastest), before_(before) {
  GV_CHECK(ranks_here > 0);
}

void WorkPool::had_taken(uint64_t more) {
  const Lock lock(mutex_);
  before_ += more;
}

void WorkPool::expect(uint64_t gradients) {
  const Lock lock(mutex_);
  if (wanted_ == 0) wanted_ = gradients;
}

uint64_t WorkPool::wanted() const {
  const Lock lock(mutex_);
  return wanted_;
}

void WorkPool::took(uint64_t gradients) {
  const Lock lock(mutex_);
  taken_ += gradients;
}

void WorkPool::await(const void* rank, double until_s) {
  const Lock lock(mutex_);
  awaited_[rank] = until_s;
}

void WorkPool::await_no_longer(const void* rank) {
  const Lock lock(mutex_);
  awaited_.erase(rank);
}

bool WorkPool::awaits(double now) const {
  const Lock lock(mutex_);
  return std::any_of(awaited_.begin(), awaited_.end(),
                     [now](const auto& a) { return now < a.second; });
}

bool WorkPool::is_enough(double now) {
  const Lock lock(mutex_);
  return waits(now);
}

bool WorkPool::waits(double now) {
  const double taken = taken_by_all(now);
  if (enough(taken)) {
    enough_s_ = now;
    return true;
  }
  if (enough_s_ < 0) return false;
  const double turns = 1 + std::floor((now - enough_s_) / kTurn_s);
  double before = 0;  // ranks of waiting members that begin before those here
  for (const auto& [id, m] : others_)
    if (id < self_ && m.told.is_live && m.told.number >= kTellsAPace && m.told.per_second == 0)
      before += m.told.ranks;
  return before >= static_cast<double>(wanted_) - taken + turns * kAtOnce;
}

bool WorkPool::is_complete() const {
  const Lock lock(mutex_);
  return enough(static_cast<double>(told_by_all()));
}

uint64_t WorkPool::told() const {
  const Lock lock(mutex_);
  return told_by_all();
}

double WorkPool::progress(double now) const {
  const Lock lock(mutex_);
  if (wanted_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::min(1.0, taken_by_all(now) / static_cast<double>(wanted_));
}

uint64_t WorkPool::taken(double now) const {
  const Lock lock(mutex_);
  return static_cast<uint64_t>(taken_by_all(now));
}

uint64_t WorkPool::told_by_all() const {
  uint64_t told = own();
  for (const auto& [id, m] : others_)
    told += m.credit;
  return told;
}

double WorkPool::taken_by_all(double now) const {
  auto taken = static_cast<double>(told_by_all());
  double untold = 0;
  for (const auto& [id, m] : others_)
    untold += untold_by(now, m);
  return taken + std::floor(untold);
}

double WorkPool::untold_by(double now, const Member& m) const {
  const double since = now - m.heard_s;
  if (!m.told.is_live || m.is_doubted || since > kSilent * std::min(m.news.mean_s(), kNewsAtMost_s))
    return 0;
  if (m.told.number >= kTellsAPace)
    return pace(m) *
           (m.late_s + std::clamp(since, 0.0, std::min(m.news.most_s(), kFewNewsAtMost_s)));
  const double as_here =
      static_cast<double>(taken_ - m.own_before) / ranks_ * static_cast<double>(m.told.ranks);
  return std::max(0.0, as_here - static_cast<double>(m.credit));
}

// --- the reports of the others

double WorkPool::pace(const Member& m) const {
  double pace = m.told.per_second;
  if (median_ > 0) pace = std::min(pace, fastest_ * median_ * m.told.ranks);
  if (m.gained_s > 0) pace = std::min(pace, kAboveSeen * m.gained / m.gained_s);
  return pace;
}

// The median pace of a rank, over all ranks; 0: unknown.
double WorkPool::median_rate() const {
  std::vector<std::pair<double, double>> rates;  // of a rank, and the number of ranks with it
  double ranks = 0;
  const auto add = [&](double rate, double of) {
    if (of <= 0 || rate <= 0) return;
    rates.emplace_back(rate / of, of);
    ranks += of;
  };
  add(rate_, ranks_);
  for (const auto& [id, m] : others_)
    if (m.told.is_live) add(m.told.per_second, m.told.ranks);
  std::sort(rates.begin(), rates.end());
  for (double before = 0; const auto& [rate, of] : rates)
    if ((before += of) * 2 >= ranks) return rate;
  return 0;
}

uint64_t WorkPool::first_credit(const MemberWork& told, const std::vector<MemberWork>& all) const {
  double most = static_cast<double>(own()) / ranks_;
  for (const MemberWork& other : all)
    if (other.ranks > 0 && other.id != told.id)
      most = std::max(most, static_cast<double>(other.taken) / other.ranks);
  if (all.size() < 2 || most == 0) return told.taken;
  return std::min(told.taken, static_cast<uint64_t>(fastest_ * most * std::max(1, told.ranks)));
}

void WorkPool::credit(Member& m) {
  const uint64_t asked = m.told.taken - std::min(m.told.taken, m.credit);
  const bool fits = median_ == 0 || static_cast<double>(asked) <= m.allowed;
  const uint64_t given = fits ? asked : static_cast<uint64_t>(m.allowed);
  m.credit += given;
  m.gained += static_cast<double>(given);
  m.allowed = std::max(0.0, m.allowed - static_cast<double>(given));
  if (!fits && !std::exchange(m.is_doubted, true)) doubted_.push_back(m.told.node);
}

// Its clock begins again with each of its processes.
void WorkPool::time(Member& m, double now, double counted_before_s) {
  constexpr double kKept = 0.75;
  const double since = now - m.heard_s, way = now - m.told.counted_s;
  m.news.add(since);
  const bool is_new = m.told.counted_s < counted_before_s;
  m.way_s = is_new ? way : std::min(way, m.way_s + kClocksDrift * since);
  m.late_s = std::min(way - m.way_s, kLateAtMost_s);
  m.gained *= kKept;
  m.gained_s = kKept * m.gained_s + since;
  m.heard_s = now;
}

void WorkPool::hear(double now, uint64_t self, uint64_t before,
                    const std::vector<MemberWork>& all) {
  const Lock lock(mutex_);
  self_ = self;
  before_ = std::max(before_, before);
  for (auto& [id, m] : others_)
    m.told.is_live = false;  // a member that is not in the list has gone
  std::vector<Member*> news;
  for (const MemberWork& told : all) {
    const auto [at, first] = others_.try_emplace(told.id);
    Member& m = at->second;
    if (first) {
      m = {.told = told, .heard_s = now, .allowed_s = now};
      m.way_s = told.number > 0 ? now - told.counted_s : std::numeric_limits<double>::infinity();
      m.allowed = fastest_ * told.ranks;
      m.own_before = taken_;
    }
    const bool is_news = told.number > m.told.number;
    const uint64_t known = m.told.taken;
    const double counted_s = m.told.counted_s;
    m.told = told;
    m.told.taken = std::max(known, told.taken);
    if (is_news) time(m, now, counted_s);
    if (told.ranks == 0) continue;
    if (told.number > 0 && !std::exchange(m.is_counted, true))
      m.credit = first_credit(told, all);
    else if (is_news)
      news.push_back(&m);
  }
  for (auto& [id, m] : others_)
    m.allowed += fastest_ * median_ * m.told.ranks * (now - std::exchange(m.allowed_s, now));
  for (Member* m : news)
    credit(*m);
  if (const double rate = median_rate(); rate > 0) median_ = rate;
}

WorkPool::Own WorkPool::tell(double now) {
  const Lock lock(mutex_);
  const bool waits = this->waits(now);
  if (const double since = now - told_s_; since > 0) {
    const double rate = static_cast<double>(taken_ - last_told_) / since;
    rate_ = rate_ == 0 || waits ? rate : rate_ + (rate - rate_) / 2;
  }
  told_s_ = now;
  last_told_ = taken_;
  double rate = rate_;
  for (const auto& [id, m] : others_)
    if (m.told.is_live) rate += pace(m);
  const auto wanted =
      wanted_ == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(wanted_);
  const double left = wanted - static_cast<double>(told_by_all());
  const auto seconds = [&](double gradients) { return rate > 0 ? gradients / rate : 0; };
  const double usual_s = std::max(seconds(wanted / kTellsInARun),
                                  kTellLeast_s * static_cast<double>(others_.size() + 1));
  const double again_s =
      std::clamp(std::min(usual_s, seconds(left / kTellsUntilTheEnd)), kTellLeast_s, kTellMost_s);
  return {taken_, waits ? 0 : rate_, again_s};
}

std::vector<std::string> WorkPool::too_fast() {
  const Lock lock(mutex_);
  return std::exchange(doubted_, {});
}

}  // namespace grapevine
