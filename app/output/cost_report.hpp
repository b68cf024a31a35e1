// The cost of a run (actors/settings/cost.hpp) as text and as JSON. Internal to the program: it
// includes nlohmann-json.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/settings/cost.hpp"

namespace grapevine {

/// Rows of a report; none if no rank computed.
void print_cost(const Cost&);

/// Null if no rank computed.
nlohmann::ordered_json json_of(const Cost&);

/// The cost that json_of wrote; nullopt if the value is null or anything else.
std::optional<Cost> cost_of(const nlohmann::ordered_json&);

}  // namespace grapevine
