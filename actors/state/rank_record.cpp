#include "actors/state/rank_record.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace grapevine {

namespace {

template <class Named>
const Named* find(const std::vector<Named>& all, const std::string& name) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Named& one) { return one.name == name; });
  return at == all.end() ? nullptr : &*at;
}

bool fits(const RankRecord::Vector& kept, Vec values) {
  return kept.values.size() == values.size && kept.values.dtype() == values.dtype;
}

constexpr char kRms[] = "guard: root mean square step", kUsual[] = "guard: usual step",
               kWay[] = "guard: way since the last exchange",
               kLongest[] = "guard: longest way of an edge", kInherited[] = "guard: inherited step",
               kLargest[] = "guard: largest root mean square step", kSteps[] = "guard: steps",
               kUsed[] = "guard: allowance used with ";

double length_of(const RankRecord::Number& n) {
  const auto length = std::bit_cast<double>(n.bits);
  return n.is_real && std::isfinite(length) && length >= 0 ? length : 0;
}

bool is_real(const RuleState::Number& n) { return std::holds_alternative<double*>(n.value); }

}  // namespace

RankRecord record_of(const Execution& execution, const RuleState& state) {
  RankRecord record;
  for (const RuleState::Vector& v : state.vectors) {
    record.vectors.push_back({v.name, Buffer(execution, v.values.size, v.values.dtype)});
    scale(execution, 1, v.values, record.vectors.back().values);
  }
  for (const RuleState::Number& n : state.numbers) {
    const auto bits = [](const auto* value) { return std::bit_cast<uint64_t>(*value); };
    record.numbers.push_back({n.name, std::visit(bits, n.value), is_real(n)});
  }
  return record;
}

std::string misfit_of(const RankRecord& record, const RuleState& state) {
  for (const RuleState::Vector& v : state.vectors) {
    if (v.follows == Follows::graph) continue;
    const auto* kept = find(record.vectors, v.name);
    if (kept == nullptr || !fits(*kept, v.values)) return v.name;
  }
  for (const RuleState::Number& n : state.numbers) {
    if (n.follows == Follows::graph) continue;
    const auto* kept = find(record.numbers, n.name);
    if (kept == nullptr || kept->is_real != is_real(n)) return n.name;
  }
  return "";
}

void recall(const Execution& execution, const RankRecord& record, const RuleState& state,
            Recalled what) {
  const auto wanted = [what](Follows follows) {
    return (follows == Follows::graph) == (what == Recalled::graph);
  };
  for (const RuleState::Vector& v : state.vectors) {
    if (!wanted(v.follows)) continue;
    const auto* kept = find(record.vectors, v.name);
    if (kept != nullptr && fits(*kept, v.values)) scale(execution, 1, kept->values, v.values);
  }
  for (const RuleState::Number& n : state.numbers) {
    if (!wanted(n.follows)) continue;
    const auto* kept = find(record.numbers, n.name);
    if (kept == nullptr || kept->is_real != is_real(n)) continue;
    std::visit([kept]<class T>(T* value) { *value = std::bit_cast<T>(kept->bits); }, n.value);
  }
}

// --- the guard

void add_guard(RankRecord& record, const GuardRecord& guard) {
  const auto add = [&](std::string name, double value) {
    record.numbers.push_back({std::move(name), std::bit_cast<uint64_t>(value), true});
  };
  add(kRms, guard.rms);
  add(kUsual, guard.usual);
  add(kWay, guard.way);
  add(kLongest, guard.longest);
  add(kInherited, guard.inherited);
  add(kLargest, guard.largest);
  record.numbers.push_back({kSteps, guard.steps, false});
  for (const auto& [peer, used] : guard.used)
    add(kUsed + std::to_string(peer), used);
}

GuardRecord guard_of(const RankRecord& record) {
  GuardRecord guard;
  const auto length = [&](const char* name) {
    const auto* kept = find(record.numbers, name);
    return kept != nullptr ? length_of(*kept) : 0;
  };
  guard.rms = length(kRms);
  guard.usual = length(kUsual);
  guard.way = length(kWay);
  guard.longest = length(kLongest);
  guard.inherited = length(kInherited);
  guard.largest = length(kLargest);
  if (const auto* steps = find(record.numbers, kSteps))
    guard.steps = static_cast<uint32_t>(std::min<uint64_t>(steps->bits, Guard::kRemembered));
  for (const RankRecord::Number& n : record.numbers) {
    if (!n.name.starts_with(kUsed)) continue;
    int peer = 0;
    const char* const end = n.name.data() + n.name.size();
    const auto read = std::from_chars(n.name.data() + sizeof kUsed - 1, end, peer);
    if (read.ec == std::errc() && read.ptr == end)
      guard.used.emplace_back(peer, std::min(length_of(n), Guard::kAllowance));
  }
  return guard;
}

}  // namespace grapevine
