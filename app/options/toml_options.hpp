// Options in a TOML file, the configuration file or a job file. It includes toml++; besides this
// folder only compare/ uses it.
#pragma once
#include <string>
#include <vector>

#include "app/options/config_file.hpp"
#include "app/options/toml_file.hpp"

namespace grapevine {

/// The entry from `node` for a row. Error (user): a value of the wrong type, with its line.
Result<ConfigEntry> read_entry(const std::string& path, const Option&, const std::string& key,
                               const toml::node&);

/// "FILE:LINE: unknown key ..." with the nearest and all accepted names.
Error unknown_key(const std::string& path, const toml::key&, const std::vector<std::string>& names);

/// The text as a string of TOML, in quotes.
std::string toml_string(const std::string& text);

}  // namespace grapevine
