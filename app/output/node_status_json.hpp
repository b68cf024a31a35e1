// The answers of a node to consoles, as JSON: its status, and the averaged model of a snapshot.
#pragma once
#include <string>

#include "actors/cluster/mean_exchange.hpp"
#include "actors/cluster/node_status.hpp"
#include "app/output/json_output.hpp"
#include "kernels/memory/layout.hpp"

namespace grapevine {

/// The names are the program's interface; JSON.md lists them.
Json json_of(const NodeStatus&);
Json departures_json(const std::vector<Departure>&);

/// {"mean": its number, "ranks", "dtype", "bytes", "tensors": [{"name", "shape"}]}. `statistics`:
/// of the mean's second vector; without entries if there is none.
Json snapshot_json(const ParameterLayout&, const ParameterLayout& statistics, const Mean&);

/// Writes the tensors of such an object as safetensors. Errors: a malformed object, or bytes that
/// do not fit it (world); those of the file.
Status write_snapshot(const Json&, const std::string& bytes, const std::string& path);

}  // namespace grapevine
