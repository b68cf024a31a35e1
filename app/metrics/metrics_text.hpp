// Metrics: the status of a node in Prometheus' text format 0.0.4, or in OpenMetrics 1.0.
//
// Every name starts with grapevine_. Counters end in _total; units are seconds and bytes. Labels
// are ranks, peers' ranks, reasons and states, and at most 8 names that the script of a rank
// reports. So there are at most (ranks here) x (degree) series of edges, and no label has text from
// a peer.
#pragma once
#include <string>

#include "app/output/json_output.hpp"

namespace grapevine {

enum class MetricsFormat { prometheus, open_metrics };

/// The format for an `Accept` header.
MetricsFormat metrics_format(const std::string& accept);
const char* content_type(MetricsFormat);

/// REQUIRES: the status comes from json_of(NodeStatus). Missing numbers are left out.
std::string metrics_text(const Json& status, MetricsFormat);

}  // namespace grapevine
