#include "actors/cluster/missed_nodes.hpp"

#include <fmt/format.h>

namespace grapevine {

namespace {

Alarm alarm_of(const std::string& node, double now) {
  Alarm alarm;
  alarm.what = Alarm::What::lost_node;
  alarm.at_s = now;
  alarm.node = node;
  return alarm;
}

}  // namespace

Alarm MissedNodes::died(const std::string& node, double now, size_t live) {
  lost_.insert(node);
  Alarm alarm = alarm_of(node, now);
  alarm.is = fmt::format("it does not answer; {} nodes are left", live);
  alarm.reason = "its process has died or is stopped, or the network is cut";
  alarm.advice = "the others continue; start it again with the same command";
  return alarm;
}

std::vector<Alarm> MissedNodes::look(const MemberTable& table, double now) {
  std::erase_if(left_, [&](const std::string& node) { return table.live(*table.find(node)); });
  std::vector<Alarm> over;
  std::erase_if(lost_, [&](const std::string& node) {
    const MemberState state = table.at(*table.find(node)).state;
    if (state == MemberState::dead) return false;
    const bool has_left = state == MemberState::left;
    if (has_left) left_.insert(node);
    over.push_back(alarm_of(node, now));
    over.back().over = true;
    over.back().is = has_left ? "it has left" : "it answers again";
    return true;
  });
  return over;
}

}  // namespace grapevine
