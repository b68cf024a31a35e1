#include "actors/membership/next_graph.hpp"

#include <algorithm>
#include <utility>

namespace grapevine {

namespace {

constexpr double kGraphStands_s = 1, kGraphsInARow = 4;
constexpr double kVersionsAhead = 4, kVersionsPerSecond = 16;
constexpr double kNewcomer_s = 2;  // for a second one's word

}  // namespace

bool NextGraph::wish(const std::string& node, const std::string& topology,
                     const GraphSpec& current) {
  const bool replaces_own = next_ && next_->key == PublicKey{};  // which nobody has heard of
  const uint64_t newest = next_ ? next_->version - uint64_t{replaces_own} : current.version;
  if (newest >= kSpecsAtMost) return false;
  next_ = GraphSpec{newest + 1, node, topology, {}, {}};
  return true;
}

bool NextGraph::hear(double now, const Word& word, const GraphSpec& current, bool newcomer) {
  const GraphSpec& said = word.graph;
  if (said.version > kSpecsAtMost) return true;
  if (newcomer && !newcomer_until_) newcomer_until_ = now + kNewcomer_s;
  const double ahead = static_cast<double>(said.version) - static_cast<double>(current.version);
  const bool far = ahead > kVersionsAhead + kVersionsPerSecond * (now - since_);
  if (!far && word.in_graph && now < newcomer_until_) denied_ = true;
  if (!wins(said, next_ ? *next_ : current)) return true;
  if (far) return hear_far(now, word);
  next_ = said;
  return true;
}

bool NextGraph::hear_far(double now, const Word& word) {
  if (now >= newcomer_until_) return false;
  if (!far_) {
    far_ = word;
  } else if (far_->by != word.by) {
    next_ = wins(word.graph, far_->graph) ? far_->graph : word.graph;
    far_.reset();
    newcomer_until_ = now;
  }
  return true;
}

std::optional<GraphSpec> NextGraph::take(double now) {
  if (far_ && newcomer_until_ <= now) {
    if (!denied_) next_ = far_->graph;
    far_.reset();
  }
  if (now < due()) return std::nullopt;
  until_ = std::max(until_, now) + kGraphStands_s;
  since_ = now;
  return std::exchange(next_, std::nullopt);
}

double NextGraph::due() const {
  double at = std::numeric_limits<double>::infinity();
  if (next_) at = until_ - (kGraphsInARow - 1) * kGraphStands_s;
  return far_ ? std::min(at, *newcomer_until_) : at;
}

}  // namespace grapevine
