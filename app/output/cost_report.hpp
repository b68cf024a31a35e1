// What the time of a run went to (actors/settings/cost.hpp), as text and as JSON. Internal to the
// program: it shows nlohmann-json.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/settings/cost.hpp"

namespace grapevine {

/// Rows of a report; none where nothing was computed.
void print_cost(const Cost&);

/// Null where nothing was computed.
nlohmann::ordered_json json_of(const Cost&);

/// What json_of has written; nothing: it is null, or was not written by it.
std::optional<Cost> cost_of(const nlohmann::ordered_json&);

}  // namespace grapevine
