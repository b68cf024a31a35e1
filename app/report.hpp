// The tables that a run ends with, for people, on standard output.
#pragma once
#include <vector>

#include "actors/settings.hpp"
#include "app/summary.hpp"

namespace grapevine {

void print_simulation(const Settings&, const std::vector<Summary>& runs);

}  // namespace grapevine
