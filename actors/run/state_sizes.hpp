// The sizes of a state actor's pools, and all memory that its ranks need on a device.
#pragma once
#include "actors/algorithms/rule_settings.hpp"
#include "actors/settings/settings.hpp"
#include "actors/state/state.hpp"

namespace grapevine {

/// The settings of the rules, completed from the graph and the objective.
RuleSettings rule_settings_of(const Settings&, const Objective&);

/// CollectiveRule::vectors of a rule. REQUIRES: the method is a collective one.
int vectors_of_rule(const Settings&, const Objective&, const RuleSettings&);

/// The pools of a state actor that serves `members` ranks.
StatePools pools_of(const Settings&, const Objective&, const RuleSettings&, size_t members,
                    bool on_device);

/// Lanes of a device: one computes while the other waits for its next step.
inline constexpr int kLanes = 2;

/// The sizes for a device that holds all ranks of this process.
DeviceSizes device_sizes(const Settings&, const Objective&);

}  // namespace grapevine
