#include "app/compare/job.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "app/compare/file.hpp"
#include "app/options/toml_options.hpp"
#include "app/run/execute.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/memory/hash.hpp"
#include "models/zoo.hpp"

namespace grapevine {
namespace {

constexpr int kSamples = 100, kTests = 20;  // per run, if the file sets none

// All combinations of one value each; the last option varies fastest.
std::vector<std::vector<ConfigEntry>> combinations(const Choices& choices) {
  std::vector<std::vector<ConfigEntry>> all{{}};
  for (const auto& [name, values] : choices) {
    std::vector<std::vector<ConfigEntry>> longer;
    for (const auto& entries : all) {
      for (const ConfigEntry& value : values) {
        longer.push_back(entries);
        longer.back().push_back(value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string group_of(const std::string& label, const Choices& choices,
                     const std::vector<ConfigEntry>& chosen) {
  std::string group = label;
  for (const ConfigEntry& entry : chosen) {
    const bool is_listed = choices.at(entry.name).size() > 1;
    if (!is_listed) continue;
    group +=
        entry.text.empty() ? ", no " + entry.name : fmt::format(", {} {}", entry.name, entry.text);
  }
  return group;
}

std::string content_of(const std::string& path) {
  std::error_code unreadable;
  if (path.empty() || !std::filesystem::is_regular_file(path, unreadable)) return "";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// All that the outcome depends on, except the files of data sets.
std::string id_of(const Cell& cell) {
  Options options = cell.options;
  std::string all = GRAPEVINE_VERSION "\n";
  for (const Option& option : option_table(options))
    if ((option.commands & kSimulate) != 0)
      all += fmt::format("{}={}\n", option.name, option_text(option));
  all += fmt::format("{}\n{}", content_of(options.plan), content_of(options.settings.topology));
  std::string id;
  for (const char c : cell.group.substr(0, 60)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || (!id.empty() && id.back() != '-')) id += plain ? c : '-';
  }
  return fmt::format("{}-seed-{}-{:016x}", id, options.settings.seed, fnv1a(all));
}

bool has(const std::vector<ConfigEntry>& entries, const std::string& name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const ConfigEntry& e) { return e.name == name; });
}

// The least virtual time of the run; 0: unknown.
double duration_s(const Settings& s) {
  const double by_gradients =
      static_cast<double>(s.gradients) / static_cast<double>(s.ranks) * s.gradient_s;
  if (s.gradients == 0) return s.until_s;
  return s.until_s > 0 ? std::min(s.until_s, by_gradients) : by_gradients;
}

// The sampling if the file does not set it.
void add_samples(const Settings& s, std::vector<ConfigEntry>& entries) {
  const double duration = duration_s(s);
  if (!(duration > 0)) return;
  auto each = [&](const char* option, int count, const char* unit) {
    if (!has(entries, option))
      entries.push_back({option, fmt::format("{:.6g}{}", duration / count, unit), ""});
  };
  each("sample-seconds", kSamples, "");
  if (s.objective.objective == "network") each("test-every", kTests, "s");
}

Result<Cell> make_cell(const std::string& path, const MethodTable& table, std::string group,
                       std::vector<ConfigEntry> entries) {
  auto wrong = [&](const Error& error) {
    const bool has_line = error.message.rfind(path + ":", 0) == 0;
    return has_line ? error
                    : user_error(fmt::format("{}{}: {}", table.where, group, error.message));
  };
  auto plain = resolve_options(kSimulate, entries);
  if (!plain) return wrong(plain.error());
  add_samples(plain->settings, entries);
  auto options = resolve_options(kSimulate, entries);
  if (!options) return wrong(options.error());
  options->settings.threads = 1;  // several cells run at the same time
  Cell cell{table.label, std::move(group), std::move(entries), std::move(*options), ""};
  cell.id = id_of(cell);
  return cell;
}

// Loads each data set that networks need, once for each partition.
Status check_data(const std::vector<Cell>& cells, const std::string& path) {
  std::set<std::string> seen;
  for (const Cell& cell : cells) {
    const Settings& s = cell.options.settings;
    const ObjectiveSpec& o = s.objective;
    std::string key = fmt::format("{} {} {} {} {} {}", o.objective, o.model, o.dataset, o.data_dir,
                                  o.partition, s.ranks);
    if (!seen.insert(key).second) continue;
    const auto objective = make_objective_of(s);
    if (!objective)
      return user_error(fmt::format("{}: {}: {}", path, cell.group, objective.error().message));
  }
  return Done{};
}

Status add_target(const JobFile& file, Job& job) {
  const std::string& objective = job.cells[0].options.settings.objective.objective;
  for (const JobTarget& target : file.targets) {
    if (target.measure != job.measure.name) {
      return user_error(fmt::format("{}target_{} with objective \"{}\", accepted: target_{}",
                                    target.where, target.measure, objective, job.measure.name));
    }
    job.target = target.value;
  }
  return Done{};
}

}  // namespace

Measure measure_of(const ObjectiveSpec& spec) {
  const std::string& objective = spec.objective;
  if (objective == "consensus" || objective == "matrix") return {"consensus_distance", false};
  if (objective != "network") return {"suboptimality", false};
  if (spec.loss == "mse" || reads_text(spec.model)) return {"test_loss", false};
  return {"accuracy", true};
}

Result<Job> read_job(const std::string& path) {
  const auto file = read_job_file(path);
  if (!file) return file.error();
  Job job;
  job.path = path;
  for (const MethodTable& table : file->tables) {
    Choices choices = table.own;
    choices.insert(file->shared.begin(), file->shared.end());  // the method's own values win
    for (const auto& chosen : combinations(choices)) {
      const std::string group = group_of(table.label, choices, chosen);
      for (const ConfigEntry& seed : file->seeds) {
        std::vector<ConfigEntry> entries = chosen;
        entries.push_back(seed);
        auto cell = make_cell(path, table, group, std::move(entries));
        if (!cell) return cell.error();
        job.cells.push_back(std::move(*cell));
      }
    }
  }
  const std::string& objective = job.cells[0].options.settings.objective.objective;
  for (const Cell& cell : job.cells) {
    const std::string& other = cell.options.settings.objective.objective;
    if (other == objective) continue;
    return user_error(
        fmt::format("{}: objectives \"{}\" and \"{}\" in one job, accepted: one objective", path,
                    objective, other));
  }
  if (Status ok = check_data(job.cells, path); !ok) return ok.error();
  job.measure = measure_of(job.cells[0].options.settings.objective);
  if (Status ok = add_target(*file, job); !ok) return ok.error();
  return job;
}

std::string config_text(const Cell& cell) {
  Options options = cell.options;
  const OptionTable table = option_table(options);
  std::string text = fmt::format("# grapevine simulate --config THIS: {}\n", printable(cell.group));
  for (const ConfigEntry& entry : cell.entries) {
    const Field& field = find_option(table, entry.name)->field;
    const bool is_text =
        std::holds_alternative<std::string*>(field) || std::holds_alternative<Choice>(field);
    text += fmt::format("{} = {}\n", entry.name, (is_text ? toml_string(entry.text) : entry.text));
  }
  return text + "threads = 1\n";
}

}  // namespace grapevine
