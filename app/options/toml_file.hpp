// The common part of the configuration file and the plan file: reads TOML, and reports the place
// and the kind of an error. It includes toml++; besides this folder only compare/ and launch/ use
// it.
#pragma once
#include <toml++/toml.h>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Errors (user): a file that is missing or not TOML, with the line.
Result<toml::table> read_toml(const char* what, const std::string& path);

/// The same for a text; `name` stands for the file.
Result<toml::table> parse_toml(const std::string& name, const std::string& text);

/// "FILE:LINE: complaint"
inline Error toml_error(const std::string& path, const toml::source_region& where,
                        const std::string& complaint) {
  return user_error(path + ":" + std::to_string(where.begin.line) + ": " + complaint);
}

/// A value for messages, as written in a file: strings in quotes.
std::string toml_text(const toml::node&);

}  // namespace grapevine
