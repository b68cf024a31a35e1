#include "actors/algorithms/rule_state.hpp"

#include <bit>

namespace grapevine {

namespace {

bool goes_along(Follows follows, bool whole) {
  return follows == Follows::model || (whole && follows == Follows::rank);
}

}  // namespace

SavedState save(const Execution& execution, const RuleState& state, bool whole) {
  SavedState copy;
  copy.whole = whole;
  for (const RuleState::Vector& v : state.vectors) {
    if (!goes_along(v.follows, whole)) continue;
    copy.vectors.emplace_back(execution, v.values.size, v.values.dtype);
    scale(execution, 1, v.values, copy.vectors.back());
  }
  for (const RuleState::Number& n : state.numbers) {
    if (!goes_along(n.follows, whole)) continue;
    const auto bits = [](const auto* value) { return std::bit_cast<uint64_t>(*value); };
    copy.numbers.push_back(std::visit(bits, n.value));
  }
  return copy;
}

void restore(const Execution& execution, const SavedState& copy, const RuleState& state) {
  auto vector = copy.vectors.begin();
  for (const RuleState::Vector& v : state.vectors) {
    if (!goes_along(v.follows, copy.whole)) continue;
    if (vector == copy.vectors.end() && !copy.whole) break;
    GV_CHECK(vector != copy.vectors.end());
    scale(execution, 1, (vector++)->vec(), v.values);
  }
  auto number = copy.numbers.begin();
  for (const RuleState::Number& n : state.numbers) {
    if (!goes_along(n.follows, copy.whole)) continue;
    GV_CHECK(number != copy.numbers.end());
    const uint64_t bits = *number++;
    std::visit([bits]<class T>(T* value) { *value = std::bit_cast<T>(bits); }, n.value);
  }
  GV_CHECK(vector == copy.vectors.end());
  GV_CHECK(number == copy.numbers.end());
}

}  // namespace grapevine
