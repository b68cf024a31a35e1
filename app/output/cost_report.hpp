// The cost of a run (actors/settings/cost.hpp) as text and as JSON. Internal to the
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

/// The cost that json_of wrote; nullopt if the value is null or something else.
std::optional<Cost> cost_of(const nlohmann::ordered_json&);

}  // namespace grapevine
