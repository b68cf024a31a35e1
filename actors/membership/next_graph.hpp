// NextGraph: which graph is to follow the one of now, and when. A state machine without I/O.
//
// Of all wishes the one that wins (member_table.hpp) is taken: four in a row, then one a second,
// for every node solves for each. Versions go beyond the graph of now by so many for each second
// that it stands: a liar cannot use them up, and where it has led some nodes far ahead, the others
// follow.
#pragma once
#include <limits>
#include <optional>
#include <string>

#include "actors/membership/member_table.hpp"

namespace grapevine {

class NextGraph {
 public:
  /// The graph of now stands since then.
  void start(double now) { since_ = now; }

  /// A wish of this node's own. False: there are no versions left.
  bool wish(const std::string& node, const std::string& topology, const GraphSpec& current);
  /// What another says the graph is, or is to be. `any`: however far ahead, as a node that has just
  /// come must believe it. False: that is too far for now.
  bool hear(double now, const GraphSpec& said, const GraphSpec& current, bool any);

  /// The graph from now on, once; none: nothing was wished, or the graphs before it are to stand.
  std::optional<GraphSpec> take(double now);
  double due() const;  // when take() has one; infinity: nothing is wished

 private:
  std::optional<GraphSpec> next_;
  double since_ = 0;  // of the graph of now
  double until_ = 0;  // those that were taken were to stand, one after the other
};

}  // namespace grapevine
