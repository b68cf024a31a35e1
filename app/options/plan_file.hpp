// The plan file: TOML, a list of [[fault]] tables: which ranks are slow or fail, when, and the
// faults of links.
//
//   [[fault]]
//   kind = "slow"          # slow, pause, kill, restart, reconfigure;
//                          # of links: loss, delay, cut, one_way, repeat
//   ranks = [3]            # or links = [[3, 4]]; neither: all
//   at = 10                # seconds of the run's clock; default: from the start
//   until = 20             # default: to the end
//   factor = 3             # of slow and delay. Also: probability (loss, repeat),
//                          # seconds (delay), topology (reconfigure)
//
// Link faults also take frames = "control" | "bulk" | "all".
#pragma once
#include <string>

#include "actors/settings/plan.hpp"

namespace grapevine {

/// Errors (user): file, line, the key, its value and what is accepted. check() tests the ranges
/// (actors/settings/plan.hpp).
Result<Plan> read_plan(const std::string& path);

/// The same for a text; `name` stands for the file.
Result<Plan> plan_of_text(const std::string& name, const std::string& text);

}  // namespace grapevine
