// The plan file: TOML, a list of [[fault]] tables; who is slow or fails, when, and what happens to
// links.
//
//   [[fault]]
//   kind = "slow"          # slow, pause, kill, restart, reconfigure;
//                          # of links: loss, delay, cut, one_way, repeat
//   ranks = [3]            # or links = [[3, 4]]; neither: all
//   at = 10                # seconds of the run's clock; none: from the start
//   until = 20             # none: to the end
//   factor = 3             # of slow and delay. Also: probability (loss, repeat),
//                          # seconds (delay), topology (reconfigure)
//
// Link faults also take frames = "control" | "bulk" | "all".
#pragma once
#include <string>

#include "actors/settings/plan.hpp"

namespace grapevine {

/// Errors (user): file, line, the key, its value and what is accepted. Ranges are `check`'s to
/// judge (actors/settings/plan.hpp).
Result<Plan> read_plan(const std::string& path);

/// The same from a text that came as `name`.
Result<Plan> plan_of_text(const std::string& name, const std::string& text);

}  // namespace grapevine
