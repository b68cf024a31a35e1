// A row of the table at the end of a command.
#pragma once
#include <cstdio>
#include <string>

#include "kernels/base/printable.hpp"

namespace grapevine {

inline void row(const std::string& name, const std::string& text) {
  std::printf("  %-22s %s\n", name.c_str(), printable(text).c_str());
}

}  // namespace grapevine
