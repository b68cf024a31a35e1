// JobFile: a parsed job file, before its lists are multiplied out (job.hpp). Every name in it is
// known and every value has its option's type; combinations are not checked yet.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "app/options/config_file.hpp"

namespace grapevine {

/// The values of an option, one or a list, by the option's name.
using Choices = std::map<std::string, std::vector<ConfigEntry>>;

/// A [[method]] table, or one value of `method`.
struct MethodTable {
  std::string label;
  std::string where;  // "FILE:LINE: "
  Choices own;        // includes "method"
};

struct JobTarget {
  std::string measure, where;
  double value = 0;
};

struct JobFile {
  Choices shared;                  // without the method
  std::vector<ConfigEntry> seeds;  // at least one
  std::vector<MethodTable> tables;
  std::vector<JobTarget> targets;
};

/// Errors (user), with file and line: an unknown key, a value of the wrong type, a value twice in
/// its list, an empty list, a table without a name, two tables with one label, no method.
Result<JobFile> read_job_file(const std::string& path);

}  // namespace grapevine
