#include "app/options/run_settings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "actors/transport/console.hpp"
#include "app/system/ask_node.hpp"
#include "kernels/base/spec.hpp"
#include "models/guest.hpp"

namespace grapevine {
namespace {

constexpr double kAnswerS = 2;

bool alike(const Option& option, bool guests) {
  return option.shared == Shared::always || (option.shared == Shared::unless_guests && !guests);
}

// The last entry counts; null: it is not given.
const ConfigEntry* entry_of(const std::vector<ConfigEntry>& given, const std::string& name) {
  const auto found = std::find_if(given.rbegin(), given.rend(),
                                  [&name](const ConfigEntry& e) { return e.name == name; });
  return found == given.rend() ? nullptr : &*found;
}

std::string text_given(const std::vector<ConfigEntry>& given, const char* name) {
  const ConfigEntry* entry = entry_of(given, name);
  return entry == nullptr ? std::string() : entry->text;
}

struct Answer {
  std::string address;
  Hello hello;
};

// The answer of the first node that is there.
std::optional<Answer> ask_for_settings(const std::string& join, const std::string& key) {
  for (const std::string_view word : split(join, ',')) {
    const auto address = address_of_node(std::string(word));
    if (!address) continue;
    auto console = open_console(*address, key, kAnswerS);
    if (console) return Answer{*address, (*console)->node()};
  }
  return std::nullopt;
}

// The text after set_option: 0.10 becomes 0.1.
std::string normal(const Option& option, const std::string& text) {
  return set_option(option, text) ? option_text(option) : text;
}

// Whether the ranks of this node are within `total`; else the run grows.
bool has_room(const std::vector<ConfigEntry>& given, const std::string& total) {
  Options own;
  const OptionTable table = option_table(own);
  const Option& ranks = *find_option(table, "ranks");
  if (const ConfigEntry* entry = entry_of(given, "ranks"))
    if (!set_option(ranks, entry->text)) return false;
  return own.settings.ranks <= number_of<int>(total).value_or(0);
}

Status check_against(const Option& option, const ConfigEntry& own, const std::string& theirs,
                     const std::string& address) {
  const std::string text = normal(option, own.text);
  if (text == normal(option, theirs)) return Done{};
  const bool graph = std::string_view(option.name) == "topology";
  return user_error(fmt::format(
      "{}{} is \"{}\", but the run at {} has \"{}\", accepted: \"{}\", or no {}{}", own.where,
      option.name, text, address, theirs, theirs, option.name,
      graph ? fmt::format("; grapevine ctl {} reconfigure {} changes it for all", address, text)
            : std::string()));
}

}  // namespace

RunSettings run_settings(const Options& options) {
  Options copy = options;
  RunSettings told;
  for (const Option& option : option_table(copy)) {
    if (alike(option, options.guests > 0)) told.alike[option.name] = option_text(option);
    if (option.shared == Shared::by_default) told.defaults[option.name] = option_text(option);
  }
  return told;
}

Result<std::vector<ConfigEntry>> with_settings_of_run(const std::vector<ConfigEntry>& given) {
  const std::string join = text_given(given, "join"), guests = text_given(given, "guests");
  if (join.empty() || entry_of(given, "first-rank") != nullptr) return given;
  const auto run = ask_for_settings(join, text_given(given, "key"));
  if (!run) return given;
  const auto& [address, hello] = *run;
  Options scratch;
  const OptionTable table = option_table(scratch);
  std::vector<ConfigEntry> entries{{"run-name", hello.run, ""}};
  const auto take = [&](const std::string& name, const std::string& value) {
    entries.push_back({name, value, fmt::format("the run at {}: ", address)});
  };
  for (const auto& [name, value] : setting_lines(hello.settings)) {
    const Option* option = find_option(table, name);
    if (option == nullptr || !alike(*option, !guests.empty() && guests != "0")) continue;
    if (const ConfigEntry* own = entry_of(given, name))
      if (Status same = check_against(*option, *own, value, address); !same) return same.error();
    take(name, value);
  }
  for (const auto& [name, value] : setting_lines(hello.defaults)) {
    const Option* option = find_option(table, name);
    if (option == nullptr || option->shared != Shared::by_default) continue;
    if (name != "total-ranks" || has_room(given, value)) take(name, value);
  }
  entries.insert(entries.end(), given.begin(), given.end());
  return entries;
}

}  // namespace grapevine
