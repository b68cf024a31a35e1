#include "app/metrics/readiness.hpp"

#include <algorithm>

namespace grapevine {
namespace {

/// Of the edges with a rank of another node, as the graph has them.
struct Outside {
  int edges = 0, used = 0, silent = 0;
  std::string alarm;
};

bool is_here(const Json& status, const Json& rank) {
  const Json& here = status["ranks_here"];
  return std::find(here.begin(), here.end(), rank) != here.end();
}

Outside outside_of(const Json& status) {
  Outside outside;
  for (const Json& edge : status["edges"]) {
    const Json& ends = edge["ranks"];
    if (!edge["in_graph"] || (is_here(status, ends[0]) && is_here(status, ends[1]))) continue;
    ++outside.edges;
    outside.used += edge["exchanges"] > 0;
    for (const Json& alarm : status["alarms"])
      if (alarm["kind"] == "silent_edge" && Json({alarm["rank"], alarm["peer"]}) == ends) {
        ++outside.silent;
        outside.alarm = alarm["line"];
      }
  }
  return outside;
}

}  // namespace

std::string why_not_ready(const Json& status, bool expects_others) {
  if (status["graph_ranks"] == 0 || status["ranks_here"].empty())
    return "the node is not in the run yet";
  int alive = 0, gone = 0;
  for (const Json& member : status["members"]) {
    if (member["node"] == status["node"] || member["state"] == "left") continue;
    ++(member["state"] == "dead" ? gone : alive);
  }
  if (alive == 0)
    return expects_others || gone > 0 ? "the node is alone: no other of the run answers" : "";
  const Outside outside = outside_of(status);
  if (outside.used == 0) return "no exchange with another node yet";
  if (outside.silent == outside.edges) return "no exchange with another node: " + outside.alarm;
  return {};
}

}  // namespace grapevine
