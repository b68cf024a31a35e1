#include "app/options/toml_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "kernels/base/read_text.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostMib = 16;

// The parser handles the parts of a dotted key by recursion, so a key of a hundred thousand parts
// would overflow the stack.
bool is_too_deep(const std::string& text) {
  constexpr int kMostDots = 32;
  int dots = 0;
  return std::ranges::any_of(text, [&](char c) {
    dots = std::string_view("=,{}[]\n").find(c) != std::string_view::npos ? 0 : dots + (c == '.');
    return dots > kMostDots;
  });
}

}  // namespace

Result<toml::table> read_toml(const char* what, const std::string& path) {
  const auto text = read_text(path, kMostMib);
  if (text) return parse_toml(path, *text);
  return user_error(fmt::format("{} is \"{}\", which cannot be read: {}, accepted: a TOML file",
                                what, path, text.error().message));
}

Result<toml::table> parse_toml(const std::string& name, const std::string& text) {
  if (is_too_deep(text))
    return user_error(name + " has a key or a text with more than 32 dots, accepted: at most 32");
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
