#include "actors/state/edge_distances.hpp"

#include <algorithm>
#include <cmath>

namespace grapevine {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool precedes(const EdgeDistances::Edge& known, int peer) { return known.peer < peer; }

}  // namespace

const EdgeDistances::Edge* EdgeDistances::find(int peer) const {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), peer, precedes);
  return at != edges_.end() && at->peer == peer ? &*at : nullptr;
}

EdgeDistances::Edge& EdgeDistances::at(int peer) {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), peer, precedes);
  if (at != edges_.end() && at->peer == peer) return *at;
  return *edges_.insert(at, {peer, {}});
}

double EdgeDistances::highest_level() const {
  double highest = 0;
  for (const Edge& e : edges_)
    if (e.expected.known()) highest = std::max(highest, e.expected.level());
  return highest;
}

std::optional<double> EdgeDistances::known_bound(int peer) const {
  if (!steps_) return kInfinity;
  const Edge* const edge = find(peer);
  const bool knows = edge != nullptr && edge->expected.known();
  if (adds_alike()) {
    const double own = knows ? edge->expected.bound() : 0;
    return std::max(own, ExpectedDistance::kFarther * highest_level());
  }
  if (knows) return edge->expected.bound();
  if (pattern_ == Pattern::collective) return kInfinity;  // at all ranks alike
  return std::nullopt;
}

double EdgeDistances::unknown_bound(uint64_t gradients, double reach) const {
  constexpr double kUnknown = 1000, kAsFar = 10;
  constexpr uint64_t kBegun = 32;  // gradients
  const double times = gradients < kBegun ? kUnknown : kAsFar;
  const double most = std::max(kUnknown * highest_level(), times * reach);
  return most > 0 ? most : kInfinity;
}

bool EdgeDistances::takes(int peer, double distance, double bound) {
  const bool is_sound = std::isfinite(distance) && distance <= bound;
  const bool adds = peer == rank_ || adds_alike();
  ExpectedDistance& expected = at(peer).expected;
  if (is_sound || (expected.known() && !adds)) expected.learn(distance);
  return is_sound;
}

void EdgeDistances::forget_peers() {
  std::erase_if(edges_, [this](const Edge& e) { return e.peer != rank_; });
}

}  // namespace grapevine
