// Whether a node takes part in its run, for probes.
#pragma once
#include <string>

#include "app/output/json_output.hpp"

namespace grapevine {

/// The reason why the node does not exchange with others in the run, in a line. Empty: it does, or
/// it is the whole run by itself. `expects_others`: it was told of others, which its status does
/// not show. REQUIRES: a status from json_of(NodeStatus), with the alarms.
std::string why_not_ready(const Json& status, bool expects_others);

}  // namespace grapevine
