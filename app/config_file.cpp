#include "app/config_file.hpp"

#include <charconv>

#include "app/toml_file.hpp"

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

std::string plain_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto whole = node.value_exact<int64_t>()) return std::to_string(*whole);
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, *node.value<double>()).ptr};
}

std::string unknown(const std::string& key, const OptionTable& table) {
  std::vector<std::string> names;
  std::string accepted;
  for (const Option& option : table) {
    if (std::string(option.name) == "config") continue;
    names.push_back(option.name);
    accepted += (accepted.empty() ? "" : ", ") + names.back();
  }
  const std::string near = nearest(key, names);
  return "unknown key " + key + (near.empty() ? "" : " (did you mean " + near + "?)") +
         ", accepted: " + accepted;
}

}  // namespace

Result<std::vector<ConfigEntry>> read_config(const std::string& path, const OptionTable& table) {
  const auto file = read_toml("config", path);
  if (!file) return file.error();
  std::vector<ConfigEntry> entries;
  for (const auto& [toml_key, node] : *file) {
    const std::string key(toml_key.str());
    const Option* option = find_option(table, key);
    if (option == nullptr || std::string(option->name) == "config")
      return toml_error(path, toml_key.source(), unknown(key, table));
    if (!fits(option->field, node)) {
      return toml_error(path, node.source(), key + " is " + toml_text(node) + ", accepted: " +
                                                 accepted_by(option->field));
    }
    entries.push_back({option->name, plain_text(node),
                       path + ":" + std::to_string(node.source().begin.line) + ": "});
  }
  return entries;
}

}  // namespace grapevine
