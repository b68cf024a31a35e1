#include "app/output/cost_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/output/row.hpp"
#include "app/system/words.hpp"

namespace grapevine {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLinesAtMost = 8;

double work_s(const Cost& cost) { return cost.parts[static_cast<size_t>(Part::work)]; }

// The parts of the rest of the time, the largest first.
std::string rest_text(const Cost& cost) {
  constexpr double kLeast = 5e-4;  // of the whole
  std::vector<std::pair<double, std::string>> parts{{cost.faults_s, "faults"}};
  for (size_t p = 1; p < cost.parts.size(); ++p)
    parts.emplace_back(cost.parts[p], kPartNames[p]);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [seconds, name] : parts)
    if (seconds >= kLeast * cost.seconds)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, as_seconds(seconds));
  return text;
}

std::string lost_text(const LostTime& lost) {
  std::string text = fmt::format("{} of rank {} at {}", kLostNames[static_cast<size_t>(lost.what)],
                                 lost.rank, as_seconds(lost.at_s));
  if (lost.times > 1) text += fmt::format(" and {} more", lost.times - 1);
  return text + fmt::format(": {} of the rank, {:.3g} steps", as_seconds(lost.seconds), lost.steps);
}

/// Reads a finite number; false if there is none.
bool take(const Json& from, const char* name, double& out) {
  const auto found = from.is_object() ? from.find(name) : from.end();
  if (found == from.end() || !found->is_number()) return false;
  out = found->get<double>();
  return std::isfinite(out);
}

bool take_lost(const Json& from, LostTime& lost) {
  const auto what = from.is_object() ? from.find("what") : from.end();
  if (what == from.end() || !what->is_string()) return false;
  const auto* const name =
      std::find(kLostNames.begin(), kLostNames.end(), what->get<std::string>());
  if (name == kLostNames.end()) return false;
  lost.what = static_cast<Lost>(name - kLostNames.begin());
  double rank = 0, times = 0;
  constexpr double kMost = 1e9;
  const bool whole = take(from, "rank", rank) && take(from, "times", times) &&
                     take(from, "at", lost.at_s) && take(from, "until", lost.until_s) &&
                     take(from, "seconds", lost.seconds) && take(from, "steps", lost.steps);
  if (!whole || std::abs(rank) > kMost || std::abs(times) > kMost) return false;
  lost.rank = static_cast<int>(rank);
  lost.times = static_cast<int>(times);
  return true;
}

}  // namespace

void print_cost(const Cost& cost) {
  if (!(cost.seconds > 0)) return;
  const double efficiency = cost.efficiency();
  row("efficiency", std::isfinite(efficiency)
                        ? fmt::format("{}: {} of work in {}", as_percent(efficiency),
                                      as_seconds(work_s(cost)), as_seconds(cost.seconds))
                        : "n/a: no step was measured");
  row("  the rest", rest_text(cost));
  std::vector<LostTime> lost = cost.lost;
  std::stable_sort(lost.begin(), lost.end(),
                   [](const LostTime& a, const LostTime& b) { return a.steps > b.steps; });
  for (size_t k = 0; k < std::min(lost.size(), kLinesAtMost); ++k)
    row(k == 0 ? "  faults" : "", lost_text(lost[k]));
  if (lost.size() > kLinesAtMost) row("", fmt::format("and {} more", lost.size() - kLinesAtMost));
}

Json json_of(const Cost& cost) {
  if (!(cost.seconds > 0)) return nullptr;
  Json parts = Json::object(), lost = Json::array();
  for (size_t p = 0; p < cost.parts.size(); ++p)
    parts[kPartNames[p]] = cost.parts[p];
  parts["faults"] = cost.faults_s;
  for (const LostTime& l : cost.lost)
    lost.push_back({{"what", kLostNames[static_cast<size_t>(l.what)]},
                    {"rank", l.rank},
                    {"times", l.times},
                    {"at", l.at_s},
                    {"until", l.until_s},
                    {"seconds", l.seconds},
                    {"steps", l.steps}});
  return {{"efficiency", cost.efficiency()},
          {"seconds", cost.seconds},
          {"parts", std::move(parts)},
          {"steps", cost.steps},
          {"steps_per_second", cost.speed},
          {"longest_gap_seconds", cost.longest_s},
          {"longest_gap_steps", cost.longest_steps},
          {"lost", std::move(lost)}};
}

std::optional<Cost> cost_of(const Json& told) {
  Cost cost;
  if (!take(told, "seconds", cost.seconds) || !take(told, "steps", cost.steps) ||
      !take(told, "steps_per_second", cost.speed) ||
      !take(told, "longest_gap_seconds", cost.longest_s) ||
      !take(told, "longest_gap_steps", cost.longest_steps) || !told.contains("parts") ||
      !told.contains("lost") || !told["lost"].is_array() || !(cost.seconds > 0))
    return std::nullopt;
  for (size_t p = 0; p < cost.parts.size(); ++p)
    if (!take(told["parts"], kPartNames[p], cost.parts[p])) return std::nullopt;
  if (!take(told["parts"], "faults", cost.faults_s)) return std::nullopt;
  for (const Json& one : told["lost"])
    if (!take_lost(one, cost.lost.emplace_back())) return std::nullopt;
  return cost;
}

}  // namespace grapevine
