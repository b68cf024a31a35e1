// From whom a newcomer fetches the state of a rank. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "actors/cluster/state_transfer.hpp"
#include "messages/control.hpp"

namespace grapevine {

struct FoundSources {
  std::vector<FetcherOptions::Source> sources;  // in the order in which they are asked
  std::vector<std::string> dials;               // where there are none: with whom to link first
};

/// The nodes of the graph that are linked. Nodes that start at the same time ask different ones.
FoundSources find_sources(const std::vector<Member>& graph, const std::string& self,
                          const std::function<bool(const std::string& node)>& linked);

}  // namespace grapevine
