// Whether a node takes part in its run: what a probe asks, where machines decide by it.
#pragma once
#include <string>

#include "app/output/json_output.hpp"

namespace grapevine {

/// Why the node does not yet, or no longer, exchange with others in the run: a line. Empty: it
/// does, or it is the whole run by itself. `expects_others`: it was told of others, which a node
/// that knows of nobody cannot see. REQUIRES: a status as json_of(NodeStatus) makes it, with the
/// alarms.
std::string why_not_ready(const Json& status, bool expects_others);

}  // namespace grapevine
