// Metrics: what a node tells of itself, as Prometheus reads it (text format 0.0.4; OpenMetrics 1.0
// where that is asked for).
//
// Every name begins with grapevine_. Counters end in _total, units are seconds and bytes. Labels
// are ranks, peers' ranks, reasons and states: so there are at most (ranks here) x (degree) series
// of edges, and no label holds what a peer has made up.
#pragma once
#include <string>

#include "app/output/json_output.hpp"

namespace grapevine {

enum class MetricsFormat { prometheus, open_metrics };

/// What `Accept` asks for.
MetricsFormat metrics_format(const std::string& accept);
const char* content_type(MetricsFormat);

/// REQUIRES: a status as json_of(NodeStatus) makes it. Numbers that are not there are left out.
std::string metrics_text(const Json& status, MetricsFormat);

}  // namespace grapevine
