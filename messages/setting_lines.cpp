#include "messages/setting_lines.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/base/spec.hpp"
#include "messages/control.hpp"

namespace grapevine {
namespace {

constexpr size_t kNameLength = 31, kValueLength = 95;  // two fit into a refusal's reason

bool fits(std::string_view name, std::string_view value) {
  return !name.empty() && name.size() <= kNameLength && value.size() <= kValueLength &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

std::string text_of(const SettingLines& lines) {
  std::string text;
  for (const auto& [name, value] : lines)
    if (fits(name, value) && text.size() + name.size() + value.size() + 2 <= kSettingsBytes)
      text += fmt::format("{}={}\n", name, value);
  return text;
}

SettingLines setting_lines(const std::string& text) {
  SettingLines lines;
  for (const std::string_view line : split(text, '\n')) {
    const Spec cut(line, '=');
    if (cut.value && fits(cut.name, *cut.value)) lines.emplace(cut.name, *cut.value);
  }
  return lines;
}

}  // namespace grapevine
