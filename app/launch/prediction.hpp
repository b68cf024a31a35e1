// What the virtual clock makes of a launch: the same settings and plan through `simulate`, with the
// speeds that the processes had.
#pragma once
#include <optional>

#include "app/options/options.hpp"
#include "app/output/json_output.hpp"

namespace grapevine {

/// `told`: what the launch ends with; `round_trip_s`: the of a link, 0 where it is not
/// known. Nothing where a gradient needs a network, or the run had too many events to repeat.
///
/// An object with `gradients exchanges broken_exchanges consensus_distance suboptimality` and
/// `gradient_seconds`, the measured mean that it was made with. The consensus distance is of the
/// ranks of the node that `told` is of.
std::optional<Json> predicted(const Options& launch, const Json& told, double round_trip_s);

/// The plan as it happens to processes: what hits a rank hits all ranks of its process.
Plan plan_of_processes(const Plan&, int local_ranks);

}  // namespace grapevine
