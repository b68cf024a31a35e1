// Settings as a Hello carries them: "name=value" lines.
#pragma once
#include <map>
#include <string>

namespace grapevine {

using SettingLines = std::map<std::string, std::string>;

/// At most kSettingsBytes. A setting that is not printable or too long for a line is left out: a
/// joining node is not told it.
std::string text_of(const SettingLines&);

/// Leaves out lines that are not settings.
SettingLines setting_lines(const std::string& text);

}  // namespace grapevine
