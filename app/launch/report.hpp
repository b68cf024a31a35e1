// The table that `launch` prints at the end.
#pragma once
#include "actors/settings/settings.hpp"
#include "app/output/json_output.hpp"

namespace grapevine {

/// `told`: the object of --json.
void print_launch(const Settings&, const Json& told);

}  // namespace grapevine
