#include "actors/membership/mean_requests.hpp"

#include <algorithm>
#include <limits>

namespace grapevine {

double MeanRequests::due() const {
  if (!wanted_) return std::numeric_limits<double>::infinity();
  return until_ - (kMeansInARow - 1) * kMeanEach_s;
}

bool MeanRequests::take(double now, bool alone) {
  if (!wanted_ || (!alone && due() > now)) return false;
  wanted_ = false;
  if (!alone) until_ = std::max(until_, now) + kMeanEach_s;
  return true;
}

bool MeanRequests::begin(double now, uint32_t member, uint32_t count) {
  return judge(now, member, askers_[member] = {now, count}, count);
}

bool MeanRequests::hear(double now, uint32_t member, uint32_t before, uint32_t count) {
  return judge(now, member, askers_.try_emplace(member, Asker{now, before}).first->second, count);
}

bool MeanRequests::judge(double now, uint32_t member, Asker& asker, uint32_t count) {
  asker.asked += count > asker.last ? count - asker.last : asker.last > count;
  asker.last = count;
  const double allowed = 2 * (kMeansInARow + (now - asker.since) / kMeanEach_s);
  asker.too_often = asker.too_often || static_cast<double>(asker.asked) > allowed;
  const auto place = std::ranges::find(ignored_, member);
  const bool was_ignored = place != ignored_.end();
  if (was_ignored && !asker.too_often) ignored_.erase(place);
  if (asker.too_often && !was_ignored) ignored_.push_back(member);
  return asker.too_often && !was_ignored;
}

}  // namespace grapevine
