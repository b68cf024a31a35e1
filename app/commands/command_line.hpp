// The command line: from argc and argv to a command and its resolved options. The table of the
// commands is in command_line.cpp.
#pragma once
#include <optional>
#include <string>
#include <variant>

#include "app/options/options.hpp"

namespace grapevine {

struct Invocation {
  Result<int> (*run)(Options);  // the command
  bool drains;                  // at an interrupt it ends in order; another command, at once
  // Defaults, then the configuration file, then the command line; the plan read; checked.
  Options options;
};

/// A text to print (help, version), an invocation, or an error.
using CommandLine = std::variant<std::string, Invocation, Error>;

CommandLine read_command_line(int argc, char** argv);

}  // namespace grapevine
