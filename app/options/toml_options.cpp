#include "app/options/toml_options.hpp"

#include <fmt/core.h>

#include <charconv>
#include <sstream>

namespace grapevine {
namespace {

const char* accepted_by(const Field& field) {
  if (std::holds_alternative<bool*>(field)) return "true, false";
  if (std::holds_alternative<double*>(field)) return "a number";
  if (std::holds_alternative<int*>(field)) return "a whole number";
  if (std::holds_alternative<uint64_t*>(field)) return "a whole number, 0 or more";
  return "a string";
}

bool fits(const Field& field, const toml::node& node) {
  if (std::holds_alternative<bool*>(field)) return node.is_boolean();
  if (std::holds_alternative<double*>(field)) return node.is_number();
  if (std::holds_alternative<int*>(field) || std::holds_alternative<uint64_t*>(field))
    return node.is_integer();
  return node.is_string();
}

std::string shortened(const std::string& text) {
  constexpr size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

std::string plain_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto whole = node.value_exact<int64_t>()) return std::to_string(*whole);
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, *node.value<double>()).ptr};
}

}  // namespace

Result<ConfigEntry> read_entry(const std::string& path, const Option& option,
                               const std::string& key, const toml::node& node) {
  if (!fits(option.field, node)) {
    return toml_error(path, node.source(),
                      fmt::format("{} is {}, accepted: {}", key, shortened(toml_text(node)),
                                  accepted_by(option.field)));
  }
  return ConfigEntry{option.name, plain_text(node),
                     fmt::format("{}:{}: ", path, node.source().begin.line)};
}

Error unknown_key(const std::string& path, const toml::key& toml_key,
                  const std::vector<std::string>& names) {
  const std::string key(toml_key.str());
  return toml_error(path, toml_key.source(),
                    fmt::format("unknown key {}{}, accepted: the names of options, see grapevine "
                                "train --help",
                                shortened(key), three_nearest(key, names)));
}

std::string toml_string(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

}  // namespace grapevine
