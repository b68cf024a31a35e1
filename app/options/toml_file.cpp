#include "app/options/toml_file.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace grapevine {

Result<toml::table> read_toml(const char* what, const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || std::filesystem::is_directory(path) || !(text << file.rdbuf())) {
    if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) == 0)
      return toml::table{};
    return user_error(
        fmt::format("{} is \"{}\", which cannot be read, accepted: a TOML file", what, path));
  }
  return parse_toml(path, text.str());
}

Result<toml::table> parse_toml(const std::string& name, const std::string& text) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return toml_error(name, e.source(), std::string(e.description()));
  }
}

std::string toml_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return "\"" + *text + "\"";
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

}  // namespace grapevine
