// The common part of the configuration file and the plan file: reads TOML, and reports where and
// what is wrong with it. Internal to this folder: it includes toml++.
#pragma once
#include <toml++/toml.h>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Errors (user): the file that is missing or is no TOML, with the line.
Result<toml::table> read_toml(const char* what, const std::string& path);

/// The same for a text; `name` stands for the file.
Result<toml::table> parse_toml(const std::string& name, const std::string& text);

/// "FILE:LINE: complaint"
inline Error toml_error(const std::string& path, const toml::source_region& where,
                        const std::string& complaint) {
  return user_error(path + ":" + std::to_string(where.begin.line) + ": " + complaint);
}

/// A value as written in a file, for messages: strings in quotes.
std::string toml_text(const toml::node&);

}  // namespace grapevine
