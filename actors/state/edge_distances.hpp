// EdgeDistances: how far off the peers of one rank are, edge by edge, and how far off they may be.
//
// A rank whose steps diverge ends alone: what comes from farther away than the bound of its edge is
// left out. Where an edge knows its expected distance, that says its bound (expected_distance.hpp).
// Of a peer that nothing is known about
//
//   bound = max(1000 times the largest level of all edges, f reach)
//   reach     how far this rank has come since its start
//   f         1000 while it has hardly begun, 10 later
//
// and where ranks add what is alike, a peer may also do as the others and this rank itself do:
//
//   bound = max(bound of the edge, 100 times the largest level of all edges)
//
// Distances are norms, of whatever the method's ends compare. A value; owned by a state actor.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "actors/algorithms/expected_distance.hpp"
#include "actors/algorithms/method_registry.hpp"

namespace grapevine {

class EdgeDistances {
 public:
  struct Edge {
    int peer = 0;  // the rank itself: what it adds to a sum; kAll: what all add together
    ExpectedDistance expected;
    float last_jump = 0;  // |the change of what gossip conserves|
    float seen = std::numeric_limits<float>::quiet_NaN();  // the last, of ends compared whole
  };
  static constexpr int kAll = -1;

  EdgeDistances() = default;
  /// Without steps no rank can diverge, and nothing is too far off.
  EdgeDistances(int rank, Pattern pattern, bool steps)
      : rank_(rank), pattern_(pattern), steps_(steps) {}

  /// Whether bound() does without reach().
  bool knows_bound(int peer) const { return known_bound(peer).has_value(); }
  /// `gradients`: steps this rank has taken. reach() is called where nothing else is known; 0: it
  /// has not moved yet.
  template <class Reach>
  double bound(int peer, uint64_t gradients, Reach&& reach) const {
    if (const std::optional<double> known = known_bound(peer)) return *known;
    return unknown_bound(gradients, reach());
  }
  /// Whether what is so far off is taken. What is left out raises what is expected, too, so that
  /// ranks which have drifted apart meet again; but no sum gets better by what one rank adds to it.
  bool takes(int peer, double distance, double bound);

  Edge& at(int peer);
  const std::vector<Edge>& edges() const { return edges_; }  // by rising peer
  /// The others have new numbers.
  void forget_peers();

 private:
  const Edge* find(int peer) const;
  bool adds_alike() const { return pattern_ == Pattern::rounds && find(rank_) != nullptr; }
  std::optional<double> known_bound(int peer) const;
  double unknown_bound(uint64_t gradients, double reach) const;
  double highest_level() const;

  int rank_ = 0;
  Pattern pattern_ : 8 = Pattern::pairwise;  // small: there may be thousands of ranks
  bool steps_ : 1 = true;
  std::vector<Edge> edges_;
};

}  // namespace grapevine
