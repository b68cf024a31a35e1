#include "actors/membership/own_incarnation.hpp"

#include <algorithm>

namespace grapevine {

namespace {

constexpr double kStands_s = 1, kInARow = 3;
constexpr double kAwayIsHeard_s = 30;
constexpr size_t kOthersKept = 16;

}  // namespace

void OwnIncarnation::contest(uint32_t incarnation, const std::string& why) {
  contested_ = std::max(contested_, incarnation);
  why_ = why;
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

bool OwnIncarnation::lost_to(double now, uint64_t id, bool here, bool over) {
  if (std::find(others_.begin(), others_.end(), id) != others_.end()) return false;
  if (here && now < away_until_) return !over;
  if (others_.size() >= kOthersKept) others_.erase(others_.begin());
  others_.push_back(id);
  return false;
}

}  // namespace grapevine
