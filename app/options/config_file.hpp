// The configuration file: TOML, one `name = value` a line, the names of the options (with _ or -).
#pragma once
#include <string>
#include <vector>

#include "app/options/options.hpp"

namespace grapevine {

struct ConfigEntry {
  std::string name, text;  // as set_option takes them
  std::string where;       // "FILE:LINE: "; empty: the command line
};

/// Reads all entries. Errors (user): a file that cannot be read, an unknown name (the accepted
/// ones, and the nearest), a value of the wrong type; each with file and line. Does not set
/// anything.
Result<std::vector<ConfigEntry>> read_config(const std::string& path, const OptionTable&);

/// The defaults of the command and of the objective that the entries name, then the entries in
/// their order, the last one winning. For the commands that run something also the plan, and
/// everything checked. `script`: the command of guests.
Result<Options> resolve_options(Command, const std::vector<ConfigEntry>&,
                                const std::vector<std::string>& script = {});

}  // namespace grapevine
