// Reads a text file that a user names: a configuration, a plan, a graph, a list of hosts.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "kernels/base/result.hpp"

namespace grapevine {

/// The content of a file or a pipe. Errors (user), without the path: it cannot be opened, is a
/// folder or a device, or has more than `most_mib`.
inline Result<std::string> read_text(const std::string& path, size_t most_mib) {
  using Type = std::filesystem::file_type;
  std::error_code ignored;
  const Type type = std::filesystem::status(path, ignored).type();
  if (type == Type::directory) return user_error("it is a folder");
  if (type == Type::character || type == Type::block) return user_error("it is a device");
  std::ifstream file(path, std::ios::binary);
  if (!file) return user_error("it cannot be opened");
  std::string text;
  char part[1 << 16];
  while (file.read(part, sizeof part), file.gcount() > 0) {
    text.append(part, static_cast<size_t>(file.gcount()));
    if (text.size() > most_mib << 20)
      return user_error("it has more than " + std::to_string(most_mib) + " MiB");
  }
  if (file.bad()) return user_error("reading it failed");
  return text;
}

}  // namespace grapevine
