// The settings of a run of several processes: what its nodes tell each other in their Hello, and
// what a node that joins takes over instead of being told.
#pragma once
#include <vector>

#include "app/options/config_file.hpp"
#include "messages/setting_lines.hpp"

namespace grapevine {

struct RunSettings {
  SettingLines alike;     // Shared::always; without guests also Shared::unless_guests
  SettingLines defaults;  // Shared::by_default
};

/// As this process tells them.
RunSettings run_settings(const Options&);

/// `given`, behind what the run has at the first address of its `join` where a node answers. As it
/// is where none does: the run is perhaps about to begin; and with `first-rank`, since whoever
/// knows its place there knows the run. Errors (user): a setting that all nodes have alike is given
/// and is another one.
Result<std::vector<ConfigEntry>> with_settings_of_run(const std::vector<ConfigEntry>& given);

}  // namespace grapevine
