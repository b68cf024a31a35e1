// The nodes from which a new node fetches the state of a rank. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "actors/cluster/state_transfer.hpp"
#include "messages/control.hpp"

namespace grapevine {

struct FoundSources {
  std::vector<FetcherOptions::Source> sources;  // in the order of requests
  // If there are no sources: the nodes to link with first.
  std::vector<std::string> dials;
};

/// The nodes of the graph that are linked. Nodes that start at the same time get different orders.
FoundSources find_sources(const std::vector<Member>& graph, const std::string& self,
                          const std::function<bool(const std::string& node)>& linked);

}  // namespace grapevine
