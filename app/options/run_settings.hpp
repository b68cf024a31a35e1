// The settings of a run of several processes: those that its nodes send each other in their Hello,
// and those that a joining node takes from the run.
#pragma once
#include <vector>

#include "app/options/config_file.hpp"
#include "messages/setting_lines.hpp"

namespace grapevine {

struct RunSettings {
  SettingLines alike;     // Shared::always; without guests also Shared::unless_guests
  SettingLines defaults;  // Shared::by_default
};

/// As this process sends them.
RunSettings run_settings(const Options&);

/// `given`, after the settings of the run at the first address of its `join` where a node answers.
/// Only `given` if no node answers, because the run may be about to begin, and with `first-rank`,
/// because a node with a fixed place knows the run. Error (user): a given setting that all nodes
/// share differs from the run's.
Result<std::vector<ConfigEntry>> with_settings_of_run(const std::vector<ConfigEntry>& given);

}  // namespace grapevine
