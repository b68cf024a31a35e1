#include "actors/settings/cost.hpp"

#include <algorithm>
#include <utility>

namespace grapevine {

namespace {

constexpr size_t kLostTold = 100;

double sum(const Parts& parts) {
  double all = 0;
  for (const double s : parts)
    all += s;
  return all;
}

// Keeps the most expensive ones, ordered by their beginning.
void keep_few(std::vector<LostTime>& lost) {
  const auto more = [](const LostTime& a, const LostTime& b) { return a.steps > b.steps; };
  std::stable_sort(lost.begin(), lost.end(), more);
  lost.resize(std::min(lost.size(), kLostTold));
  const auto before = [](const LostTime& a, const LostTime& b) { return a.at_s < b.at_s; };
  std::stable_sort(lost.begin(), lost.end(), before);
}

// The speed of a rank without steps is unknown: it gets the mean of the others.
double usual_speed(const std::vector<RankCost>& ranks) {
  double speed = 0, known = 0;
  for (const RankCost& r : ranks) {
    if (!(r.fastest_s > 0)) continue;
    speed += 1 / r.fastest_s;
    ++known;
  }
  return known > 0 ? speed / known : 0;
}

}  // namespace

void charge_drain(std::vector<RankCost>& ranks) {
  for (RankCost& r : ranks) {
    const double seconds = std::exchange(r.seconds[static_cast<size_t>(Part::end)], 0);
    double until_s = sum(r.seconds) + seconds;
    for (const LostTime& lost : r.lost)
      until_s += lost.seconds;
    if (seconds > 0)
      r.lost.push_back({.what = Lost::drain,
                        .rank = r.rank,
                        .at_s = until_s - seconds,
                        .until_s = until_s,
                        .seconds = seconds});
  }
}

Cost cost_of(const std::vector<RankCost>& ranks) {
  Cost cost;
  if (ranks.empty()) return cost;
  const double usual = usual_speed(ranks);
  const auto weight_of = [usual](const RankCost& r) {
    return r.fastest_s > 0 ? 1 / r.fastest_s : usual > 0 ? usual : 1;  // 1: no speed is known
  };
  double weights = 0;
  for (const RankCost& r : ranks)
    weights += weight_of(r);
  cost.speed = usual > 0 ? weights : 0;
  for (const RankCost& r : ranks) {
    const double share = weight_of(r) / weights;
    cost.steps += static_cast<double>(r.steps);
    cost.longest_s = std::max(cost.longest_s, r.longest_s);
    if (r.usual_s > 0) cost.longest_steps = std::max(cost.longest_steps, r.longest_s / r.usual_s);
    for (size_t p = 0; p < cost.parts.size(); ++p)
      cost.parts[p] += share * r.seconds[p];
    for (LostTime lost : r.lost) {
      cost.faults_s += share * lost.seconds;
      lost.steps = usual > 0 ? lost.seconds * weight_of(r) : 0;
      cost.lost.push_back(lost);
    }
  }
  cost.seconds = sum(cost.parts) + cost.faults_s;
  keep_few(cost.lost);
  return cost;
}

Cost sum_of(const std::vector<Cost>& processes) {
  Cost all;
  double weights = 0;
  const bool known = std::ranges::any_of(processes, [](const Cost& c) { return c.speed > 0; });
  const auto weight_of = [known](const Cost& c) { return known ? c.speed : 1; };
  for (const Cost& c : processes)
    weights += weight_of(c);
  for (const Cost& c : processes) {
    const double share = weight_of(c) / weights;
    all.seconds += share * c.seconds;
    all.faults_s += share * c.faults_s;
    all.speed += c.speed;
    all.steps += c.steps;
    all.longest_s = std::max(all.longest_s, c.longest_s);
    all.longest_steps = std::max(all.longest_steps, c.longest_steps);
    for (size_t p = 0; p < all.parts.size(); ++p)
      all.parts[p] += share * c.parts[p];
    all.lost.insert(all.lost.end(), c.lost.begin(), c.lost.end());
  }
  keep_few(all.lost);
  return all;
}

}  // namespace grapevine
