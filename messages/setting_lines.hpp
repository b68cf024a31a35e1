// Settings in a Hello: "name=value" lines.
#pragma once
#include <map>
#include <string>

namespace grapevine {

using SettingLines = std::map<std::string, std::string>;

/// At most kSettingsBytes. Leaves out a setting that is not printable or too long for a line; a
/// joining node is not told it.
std::string text_of(const SettingLines&);

/// Ignores lines that are no settings.
SettingLines setting_lines(const std::string& text);

}  // namespace grapevine
