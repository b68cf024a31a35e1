#include "app/metrics/readiness.hpp"

#include <algorithm>

namespace grapevine {
namespace {

/// The edges of the graph to ranks of other nodes.
struct Outside {
  int edges = 0, used = 0, silent = 0;
  std::string alarm;
};

bool is_here(const Json& status, const Json& rank) {
  const Json& here = status.at("ranks_here");
  return std::find(here.begin(), here.end(), rank) != here.end();
}

Outside outside_of(const Json& status) {
  Outside outside;
  for (const Json& edge : status.at("edges")) {
    const Json& ends = edge.at("ranks");
    if (!edge.at("in_graph") || (is_here(status, ends.at(0)) && is_here(status, ends.at(1))))
      continue;
    ++outside.edges;
    outside.used += edge.at("exchanges") > 0;
    for (const Json& alarm : status.at("alarms"))
      if (alarm.at("kind") == "silent_edge" && Json({alarm.at("rank"), alarm.at("peer")}) == ends) {
        ++outside.silent;
        outside.alarm = alarm.at("line");
      }
  }
  return outside;
}

}  // namespace

std::string why_not_ready(const Json& status, bool expects_others) {
  if (status.at("graph_ranks") == 0 || status.at("ranks_here").empty())
    return "the node is not in the run yet";
  int alive = 0, gone = 0;
  for (const Json& member : status.at("members")) {
    if (member.at("node") == status.at("node") || member.at("state") == "left") continue;
    ++(member.at("state") == "dead" ? gone : alive);
  }
  if (alive == 0)
    return expects_others || gone > 0 ? "the node is alone: no other of the run answers" : "";
  const Outside outside = outside_of(status);
  if (outside.used == 0) return "no exchange with another node yet";
  if (outside.silent == outside.edges) return "no exchange with another node: " + outside.alarm;
  return {};
}

}  // namespace grapevine
