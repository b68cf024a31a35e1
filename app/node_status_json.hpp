// What a node answers to consoles, as text: its status, and the averaged model of a snapshot.
#pragma once
#include <string>

#include "actors/cluster/node_status.hpp"
#include "app/json_output.hpp"
#include "kernels/layout.hpp"

namespace grapevine {

/// The names are the program's interface; README.md lists them.
Json json_of(const NodeStatus&);
Json departures_json(const std::vector<Departure>&);

/// {"ranks", "dtype", "tensors": [{"name", "shape"}], "data": base64 of the vector}
Json snapshot_json(const ParameterLayout&, const Buffer& mean, int ranks);

/// Writes such an object as safetensors. Errors: a malformed object (world), and the file's.
Status write_snapshot(const Json&, const std::string& path);

}  // namespace grapevine
