// A row of the table that a command ends with.
#pragma once
#include <cstdio>
#include <string>

namespace grapevine {

inline void row(const std::string& name, const std::string& text) {
  std::printf("  %-22s %s\n", name.c_str(), text.c_str());
}

}  // namespace grapevine
