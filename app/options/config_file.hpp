// The configuration file: TOML, one `name = value` per line, with the names of the options (with _
// or -).
#pragma once
#include <string>
#include <vector>

#include "app/options/options.hpp"

namespace grapevine {

struct ConfigEntry {
  std::string name, text;  // for set_option
  std::string where;       // "FILE:LINE: "; empty: the command line
};

/// Reads all entries, without setting any. Errors (user), with file and line: a file that cannot be
/// read, an unknown name (with the accepted ones and the nearest), a value of the wrong type.
Result<std::vector<ConfigEntry>> read_config(const std::string& path, const OptionTable&);

/// The defaults of the command and of the objective that the entries name, then the entries in
/// their order; the last one wins. For commands that start a run it also reads the plan and checks
/// everything. `script`: the command of guests.
Result<Options> resolve_options(Command, const std::vector<ConfigEntry>&,
                                const std::vector<std::string>& script = {});

}  // namespace grapevine
