// The table that a `launch` ends with.
#pragma once
#include "actors/settings/settings.hpp"
#include "app/output/json_output.hpp"

namespace grapevine {

/// `told`: the object that --json prints.
void print_launch(const Settings&, const Json& told);

}  // namespace grapevine
