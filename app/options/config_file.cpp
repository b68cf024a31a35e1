#include "app/options/config_file.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "app/options/plan_file.hpp"
#include "app/options/toml_options.hpp"
#include "models/guest.hpp"
#include "topologies/edge_file.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

Result<std::vector<ConfigEntry>> read_config(const std::string& path, const OptionTable& table) {
  const auto file = read_toml("config", path);
  if (!file) return file.error();
  std::vector<std::string> names;
  for (const Option& option : table)
    if (std::string(option.name) != "config") names.push_back(option.name);
  std::vector<ConfigEntry> entries;
  for (const auto& [toml_key, node] : *file) {
    const std::string key(toml_key.str());
    const Option* option = find_option(table, key);
    if (option == nullptr || std::string(option->name) == "config")
      return unknown_key(path, toml_key, names);
    auto entry = read_entry(path, *option, key, node);
    if (!entry) return entry.error();
    entries.push_back(std::move(*entry));
  }
  return entries;
}

namespace {

// The file of a graph sets the number of ranks.
Status take_ranks_of_file(Command command, bool given, Settings& s) {
  if ((command & (kTopology | kRuns)) == 0 || !names_edge_file(s.topology)) return Done{};
  const auto named = ranks_of_edge_file(s.topology);
  if (!named) return named.error();
  if (given && s.ranks != *named)
    return user_error(
        fmt::format("ranks is {} with topology \"{}\", which has {}, accepted: {}, or none",
                    s.ranks, s.topology, *named, *named));
  s.ranks = *named;
  return Done{};
}

}  // namespace

Result<Options> resolve_options(Command command, const std::vector<ConfigEntry>& entries,
                                const std::vector<std::string>& script) {
  std::string objective = default_objective(command);
  for (const ConfigEntry& entry : entries)
    if (entry.name == "guests" && entry.text != "0") objective = kGuestObjective;
  for (const ConfigEntry& entry : entries)
    if (entry.name == "objective") objective = entry.text;
  Options options = default_options(command, objective);
  options.script = script;
  const OptionTable table = option_table(options);
  for (const ConfigEntry& entry : entries) {
    if (Status set = set_option(*find_option(table, entry.name), entry.text); !set) {
      Error error = set.error();
      error.message = entry.where + error.message;
      return error;
    }
  }
  const bool given =
      std::ranges::any_of(entries, [](const ConfigEntry& entry) { return entry.name == "ranks"; });
  if (Status agree = take_ranks_of_file(command, given, options.settings); !agree)
    return agree.error();
  if ((command & (kRuns | kProcesses)) == 0) return options;
  if (!options.plan.empty()) {
    auto plan = read_plan(options.plan);
    if (!plan) return plan.error();
    options.settings.plan = std::move(*plan);
  }
  if (Status whole = complete(command, options); !whole) return whole.error();
  return options;
}

}  // namespace grapevine
