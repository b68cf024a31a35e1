// Whether a node takes part in its run, for probes.
#pragma once
#include <string>

#include "app/output/json_output.hpp"

namespace grapevine {

/// Why the node does not exchange with others in the run, in a line. Empty: it does, or it is the
/// only node. `expects_others`: it has to meet others, which its status does not show. REQUIRES:
/// the status comes from json_of(NodeStatus), with the alarms.
std::string why_not_ready(const Json& status, bool expects_others);

}  // namespace grapevine
