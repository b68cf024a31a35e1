// NextGraph: which graph follows the present one, and when. A state machine without I/O.
//
// Of all requests the one that wins (member_table.hpp) is taken: four in a row, then one a second,
// because every node has to compute the constants of each. An honest request has the next version.
// Because nodes may have missed some versions, a version may be four above the present graph's, and
// sixteen more for each second since the last change. So a liar cannot use up the versions, and if
// it has led some nodes ahead, the others can follow. A new node must accept the claims of its
// first contact: it accepts a higher version when two nodes have told it, of which it takes the
// lower, or when no node in the graph has told a lower version for a while.
#pragma once
#include <limits>
#include <optional>
#include <string>

#include "actors/membership/member_table.hpp"

namespace grapevine {

class NextGraph {
 public:
  /// Since when the present graph is in use.
  void start(double now) { since_ = now; }

  /// This node's own request, unsigned. False: there are no versions left.
  bool wish(const std::string& node, const std::string& topology, const GraphSpec& current);
  /// The present or the requested graph, as another node tells it.
  struct Word {
    std::string by;
    GraphSpec graph;
    bool in_graph = true;  // the speaker, who then should know
  };
  /// `newcomer`: this node has met nobody yet. False: that is too far ahead.
  bool hear(double now, const Word&, const GraphSpec& current, bool newcomer);

  /// The next graph, once; none: nothing was requested, or the graphs before it must be used for
  /// longer.
  std::optional<GraphSpec> take(double now);
  double due() const;  // when take() has one; infinity: nothing was requested

 private:
  bool hear_far(double now, const Word&);

  std::optional<GraphSpec> next_;
  double since_ = 0;  // when the present graph began
  double until_ = 0;  // until then the graphs that were taken should be used, one after the other

  // As a newcomer, which it is once:
  std::optional<double> newcomer_until_;
  bool denied_ = false;      // somebody in the graph knows of a lower version
  std::optional<Word> far_;  // the first higher version that a node told
};

}  // namespace grapevine
