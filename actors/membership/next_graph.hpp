// NextGraph: which graph is to follow the one of now, and when. A state machine without I/O.
//
// Of all wishes the one that wins (member_table.hpp) is taken: four in a row, then one a second,
// for every node solves for each. An honest wish has the next version; for nodes that have missed
// some, versions go beyond the graph of now by four, and by sixteen more for each second that it
// stands: a liar cannot use them up, and where it has led some nodes ahead, the others follow. A
// newcomer has to believe whoever it meets first: a version beyond those once two have
// said so, of which it takes the lower, or where nobody in the graph has said less for a while.
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

  /// A wish of this node's own, unsigned. False: there are no versions left.
  bool wish(const std::string& node, const std::string& topology, const GraphSpec& current);
  /// What another says the graph is, or is to be.
  struct Word {
    std::string by;
    GraphSpec graph;
    bool in_graph = true;  // the speaker, who then should know
  };
  /// `newcomer`: this node has met nobody yet. False: that is too far ahead.
  bool hear(double now, const Word&, const GraphSpec& current, bool newcomer);

  /// The graph from now on, once; none: nothing was wished, or the graphs before it are to stand.
  std::optional<GraphSpec> take(double now);
  double due() const;  // when take() has one; infinity: nothing is wished

 private:
  bool hear_far(double now, const Word&);

  std::optional<GraphSpec> next_;
  double since_ = 0;  // of the graph of now
  double until_ = 0;  // those that were taken were to stand, one after the other

  // As a newcomer, which it is once:
  std::optional<double> newcomer_until_;
  bool denied_ = false;      // somebody in the graph knows of a lower version
  std::optional<Word> far_;  // what the first of those said who said more
};

}  // namespace grapevine
