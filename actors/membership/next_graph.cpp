#include "actors/membership/next_graph.hpp"

#include <algorithm>
#include <utility>

namespace grapevine {

namespace {

constexpr double kStands_s = 1, kInARow = 4;
constexpr double kVersionsPerSecond = 1024;

}  // namespace

bool NextGraph::wish(const std::string& node, const std::string& topology,
                     const GraphSpec& current) {
  const uint64_t newest = next_ ? next_->version : current.version;
  if (newest >= kSpecsAtMost) return false;
  next_ = GraphSpec{newest + 1, node, topology};
  return true;
}

bool NextGraph::hear(double now, const GraphSpec& said, const GraphSpec& current, bool any) {
  if (said.version > kSpecsAtMost || !wins(said, next_ ? *next_ : current)) return true;
  const double ahead = static_cast<double>(said.version) - static_cast<double>(current.version);
  if (!any && ahead > kVersionsPerSecond * (1 + now - since_)) return false;
  next_ = said;
  return true;
}

std::optional<GraphSpec> NextGraph::take(double now) {
  if (now < due()) return std::nullopt;
  until_ = std::max(until_, now) + kStands_s;
  since_ = now;
  return std::exchange(next_, std::nullopt);
}

double NextGraph::due() const {
  if (!next_) return std::numeric_limits<double>::infinity();
  return until_ - (kInARow - 1) * kStands_s;
}

}  // namespace grapevine
