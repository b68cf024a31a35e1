// What the configuration file and the plan file have in common: reading TOML, and saying where and
// what is wrong with it. Internal to this room: it shows toml++.
#pragma once
#include <toml++/toml.h>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Errors (user): the file that is missing or is no TOML, with the line.
Result<toml::table> read_toml(const char* what, const std::string& path);

/// The same of a text; `name` stands for the file.
Result<toml::table> parse_toml(const std::string& name, const std::string& text);

/// "FILE:LINE: complaint"
inline Error toml_error(const std::string& path, const toml::source_region& where,
                        const std::string& complaint) {
  return user_error(path + ":" + std::to_string(where.begin.line) + ": " + complaint);
}

/// A value as it stands in a file, for messages: strings in quotes.
std::string toml_text(const toml::node&);

}  // namespace grapevine
