// BelievedIncarnations: how large an incarnation this node accepts of each member. A value; `now`
// in seconds.
//
// A member in the graph starts at most one incarnation a second, and a few more when its process is
// started again: a larger number is refused. Of members outside the graph all nodes must accept the
// same numbers, whatever each node has received before. So a limit holds for all of these: for a
// member that is dead or has left it is twice as high, above all that was accepted before.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

class BelievedIncarnations {
 public:
  /// The member is in the graph, since now unless it was there before.
  void enters(double now, uint32_t member, uint32_t incarnation) {
    if (member >= since_.size()) since_.resize(member + 1);
    if (since_[member].incarnation == 0) since_[member] = {now, incarnation};
  }
  void is_over(uint32_t member) {
    if (member < since_.size()) since_[member] = {};
  }
  /// Whether it has entered the graph and is not over.
  bool in_graph(uint32_t member) const {
    return member < since_.size() && since_[member].incarnation > 0;
  }
  /// `over`: the incarnation is said to be dead or left.
  bool accepts(double now, uint32_t member, uint32_t incarnation, bool over = false) {
    double most = (over ? 2 : 1) * kFirstAtMost;
    if (in_graph(member)) {
      const Entry& entry = since_[member];
      most = entry.incarnation + kAtOnce + kPerSecond * (now - entry.at);
      most = std::min<double>(most, kIncarnationsAtMost - 1);
    }
    refused_ += incarnation > most;
    return incarnation <= most;
  }
  uint64_t refused() const { return refused_; }

 private:
  static constexpr uint32_t kFirstAtMost = 1 << 16;  // of a member that was not in the graph
  static constexpr uint32_t kAtOnce = 64, kPerSecond = 2;

  struct Entry {
    double at = 0;
    uint32_t incarnation = 0;  // 0: it is not in the graph
  };

  std::vector<Entry> since_;  // by member
  uint64_t refused_ = 0;
};

}  // namespace grapevine
