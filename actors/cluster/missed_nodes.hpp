// MissedNodes: the nodes that died or left while the others train and did not come back, with
// alarms for those that died. A state machine without I/O.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "actors/membership/member_table.hpp"
#include "actors/settings/alarm.hpp"

namespace grapevine {

class MissedNodes {
 public:
  /// The alarm to raise; `live`: the number of nodes that are left.
  Alarm died(const std::string& node, double now, size_t live);
  void left(const std::string& node) { left_.insert(node); }

  /// Forgets the nodes that are back and returns the ends of their alarms. The news that a node
  /// left may arrive after reports that it is dead. REQUIRES: the table knows these nodes.
  std::vector<Alarm> look(const MemberTable&, double now);

  std::vector<std::string> all_lost() const { return {lost_.begin(), lost_.end()}; }
  std::vector<std::string> all_left() const { return {left_.begin(), left_.end()}; }

 private:
  std::set<std::string> lost_, left_;
};

}  // namespace grapevine
