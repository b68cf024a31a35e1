#include "actors/membership/own_incarnation.hpp"

#include <algorithm>

namespace grapevine {

namespace {

constexpr double kStands_s = 1, kInARow = 3;
constexpr double kTellerWaits_s = 16, kTellerForgotten_s = 60;
constexpr double kAwayIsHeard_s = 30;
constexpr size_t kOthersKept = 16, kTellersKept = 256;

}  // namespace

void OwnIncarnation::contest(uint32_t incarnation, const std::string& why) {
  contested_ = std::max(contested_, incarnation);
  why_ = why;
}

void OwnIncarnation::contest(double now, uint32_t incarnation, const std::string& why,
                             uint32_t by) {
  std::erase_if(tellers_, [&](const Teller& t) { return now > t.next_at + kTellerForgotten_s; });
  auto teller = std::ranges::find_if(tellers_, [&](const Teller& t) { return t.by == by; });
  if (teller == tellers_.end()) {
    if (tellers_.size() >= kTellersKept) return;
    teller = tellers_.insert(teller, {by, now, kStands_s});
  }
  if (now < teller->next_at) return;
  teller->next_at = now + teller->wait_s;
  teller->wait_s = std::min(2 * teller->wait_s, kTellerWaits_s);
  contest(incarnation, why);
}

std::optional<OwnIncarnation::Next> OwnIncarnation::take(double now, uint32_t own) {
  if (now < due(own)) return std::nullopt;
  contest_at_ = now + kStands_s;
  count(now);
  return Next{contested_ + 1, why_};
}

double OwnIncarnation::due(uint32_t own) const {
  if (contested_ < own) return std::numeric_limits<double>::infinity();
  return std::max(contest_at_, ranks_due());
}

double OwnIncarnation::ranks_due() const { return until_ - (kInARow - 1) * kStands_s; }

void OwnIncarnation::count(double now) { until_ = std::max(until_, now) + kStands_s; }

void OwnIncarnation::stood_still(double now) { away_until_ = now + kAwayIsHeard_s; }

OwnIncarnation::Says OwnIncarnation::hear(double now, const Rival& rival) {
  auto known = std::ranges::find_if(others_, [&](const Known& k) { return k.id == rival.id; });
  if (known == others_.end()) {
    if (others_.size() >= kOthersKept) others_.erase(others_.begin());
    known = others_.insert(others_.end(), {rival.id, {}, now < away_until_});
  }
  auto& tellers = known->tellers;
  const bool is_new = std::find(tellers.begin(), tellers.end(), rival.by) == tellers.end();
  if (is_new && tellers.size() < 2) tellers.push_back(rival.by);
  if (tellers.size() < 2 && !rival.by_all) return Says::nothing;
  if (known->new_when_back && now < away_until_) return rival.is_over ? Says::contest : Says::lost;
  return Says::contest;
}

}  // namespace grapevine
