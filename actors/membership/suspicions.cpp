#include "actors/membership/suspicions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace grapevine {

namespace {

constexpr double kLeast_s = 5, kMost_s = 10;
constexpr size_t kConfirmations = 3;

bool has(const std::vector<uint32_t>& accusers, uint32_t by) {
  return std::find(accusers.begin(), accusers.end(), by) != accusers.end();
}

}  // namespace

void Suspicions::suspect(double now, uint32_t member, uint32_t by) {
  suspicions_.push_back({member, now, {by}});
}

bool Suspicions::confirm(uint32_t member, uint32_t by) {
  for (Suspicion& s : suspicions_) {
    if (s.member != member || s.accusers.size() > kConfirmations || has(s.accusers, by)) continue;
    s.accusers.push_back(by);
    return true;
  }
  return false;
}

bool Suspicions::accuses(uint32_t member, uint32_t by) const {
  return std::ranges::any_of(
      suspicions_, [&](const Suspicion& s) { return s.member == member && has(s.accusers, by); });
}

std::optional<Suspicions::Claim> Suspicions::claimed(uint32_t member) const {
  const auto claim =
      std::ranges::find_if(claims_, [&](const Claim& c) { return c.member == member; });
  return claim == claims_.end() ? std::nullopt : std::optional(*claim);
}

void Suspicions::forget(uint32_t member) {
  std::erase_if(suspicions_, [&](const Suspicion& s) { return s.member == member; });
  std::erase_if(claims_, [&](const Claim& c) { return c.member == member; });
}

void Suspicions::stood_still(double for_s) {
  for (Suspicion& s : suspicions_)
    s.since += for_s;
}

// From the most to the least as the logarithm of the number of confirmations.
double Suspicions::lapses_at(const Suspicion& s, size_t live) {
  const size_t others = live < 2 ? 0 : live - 2;
  const auto expected = static_cast<double>(std::min(kConfirmations, others));
  const auto confirmed = static_cast<double>(s.accusers.size() - 1);
  if (confirmed >= expected) return s.since + kLeast_s;
  const double part = std::log(confirmed + 1) / std::log(expected + 1);
  return s.since + kMost_s - (kMost_s - kLeast_s) * part;
}

std::vector<uint32_t> Suspicions::lapsed(double now, size_t live) const {
  std::vector<uint32_t> members;
  for (const Suspicion& s : suspicions_)
    if (lapses_at(s, live) <= now) members.push_back(s.member);
  return members;
}

double Suspicions::next(size_t live) const {
  double at = std::numeric_limits<double>::infinity();
  for (const Suspicion& s : suspicions_)
    at = std::min(at, lapses_at(s, live));
  return at;
}

}  // namespace grapevine
