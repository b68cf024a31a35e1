#include "app/compare/file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "app/options/toml_options.hpp"

namespace grapevine {
namespace {

const char* const kTargets[] = {"target_accuracy", "target_test_loss", "target_suboptimality",
                                "target_consensus_distance"};
constexpr uint64_t kMostSeeds = 100000;

bool is_of_a_cell(const Option& option) {
  static const std::set<std::string> of_the_command = {"out", "json", "quiet", "config", "seeds"};
  return (option.commands & kSimulate) != 0 && of_the_command.count(option.name) == 0;
}

class JobReader {
 public:
  explicit JobReader(const std::string& path) : path_(path), table_(option_table(scratch_)) {}

  Result<JobFile> read() {
    const auto file = read_toml("job", path_);
    if (!file) return file.error();
    const toml::array* tables = nullptr;
    for (const auto& [key, node] : *file) {
      if (key.str() == "method" && node.is_array_of_tables()) {
        tables = node.as_array();
      } else if (Status ok = read_shared(key, node); !ok) {
        return ok.error();
      }
    }
    if (Status ok = set_seeds(); !ok) return ok.error();
    if (Status ok = set_methods(tables); !ok) return ok.error();
    return std::move(job_);
  }

 private:
  // The option of a key, which may be a plural.
  const Option* option_of(const std::string& key) const {
    const Option* option = find_option(table_, key);
    const auto singular = [&](const std::string& ending, const std::string& instead) {
      const size_t stem = key.size() - std::min(key.size(), ending.size());
      if (option == nullptr && key.substr(stem) == ending)
        option = find_option(table_, key.substr(0, stem) + instead);
    };
    singular("ies", "y");
    singular("s", "");
    return option != nullptr && is_of_a_cell(*option) ? option : nullptr;
  }

  Error unknown(const toml::key& key, std::vector<std::string> names) const {
    for (const Option& option : table_)
      if (is_of_a_cell(option)) names.push_back(option.name);
    return unknown_key(path_, key, names);
  }

  Status read_values(const Option& option, const std::string& key, const toml::node& node,
                     std::vector<ConfigEntry>& values) const {
    auto add = [&](const toml::node& one) -> Status {
      auto entry = read_entry(path_, option, key, one);
      if (!entry) return entry.error();
      for (const ConfigEntry& other : values) {
        if (other.text != entry->text) continue;
        return toml_error(
            path_, one.source(),
            fmt::format("{} has {} twice, accepted: each value once", key, toml_text(one)));
      }
      values.push_back(std::move(*entry));
      return Done{};
    };
    if (!node.is_array()) return add(node);
    for (const toml::node& one : *node.as_array())
      if (Status ok = add(one); !ok) return ok;
    if (values.empty()) {
      return toml_error(path_, node.source(),
                        key + " is an empty list, accepted: one value or more");
    }
    return Done{};
  }

  Status read_shared(const toml::key& toml_key, const toml::node& node) {
    const std::string key(toml_key.str());
    for (const char* target : kTargets)
      if (key == target) return read_target(key, node);
    if (key == "seeds") {
      if (node.is_array()) return read_values(*find_option(table_, "seed"), key, node, seeds_);
      return read_values(*find_option(table_, "seeds"), key, node, count_);
    }
    const Option* option = option_of(key);
    if (option != nullptr) return read_values(*option, key, node, job_.shared[option->name]);
    std::vector<std::string> names(std::begin(kTargets), std::end(kTargets));
    names.push_back("seeds");
    return unknown(toml_key, std::move(names));
  }

  Status read_target(const std::string& key, const toml::node& node) {
    const auto value = node.value<double>();
    if (!value || !(*value > 0)) {
      return toml_error(path_, node.source(),
                        fmt::format("{} is {}, accepted: a number above 0", key, toml_text(node)));
    }
    job_.targets.push_back({key.substr(7), line_of(node), *value});
    return Done{};
  }

  std::string line_of(const toml::node& node) const {
    return fmt::format("{}:{}: ", path_, node.source().begin.line);
  }

  // `seed` is the first seed or a list; `seeds` is a list, or the number of seeds from the first
  // on.
  Status set_seeds() {
    std::vector<ConfigEntry> given;
    std::swap(given, job_.shared["seed"]);
    job_.shared.erase("seed");
    if (!given.empty() && (!seeds_.empty() || (!count_.empty() && given.size() > 1)))
      return user_error(given[0].where + "seed beside seeds, accepted: one list of them");
    job_.seeds = !seeds_.empty() ? seeds_ : given;
    if (job_.seeds.empty())
      job_.seeds.push_back({"seed", std::to_string(scratch_.settings.seed), path_ + ": "});
    if (count_.empty()) return Done{};
    const ConfigEntry first = job_.seeds[0];
    if (Status ok = set_option(*find_option(table_, "seed"), first.text); !ok)
      return user_error(first.where + ok.error().message);
    const Status ok = set_option(*find_option(table_, "seeds"), count_[0].text);
    if (!ok || scratch_.seeds < 1 || scratch_.seeds > kMostSeeds) {
      return user_error(fmt::format("{}seeds is {}, accepted: a list, or a number from 1 to {}",
                                    count_[0].where, count_[0].text, kMostSeeds));
    }
    job_.seeds.clear();
    for (uint64_t k = 0; k < scratch_.seeds; ++k)
      job_.seeds.push_back({"seed", std::to_string(scratch_.settings.seed + k), first.where});
    return Done{};
  }

  Status set_methods(const toml::array* tables) {
    std::vector<ConfigEntry> names;
    std::swap(names, job_.shared["method"]);
    job_.shared.erase("method");
    if (tables != nullptr && !names.empty())
      return user_error(names[0].where + "methods beside [[method]] tables, accepted: one of them");
    if (tables == nullptr && names.empty()) {
      return user_error(fmt::format(
          "job is \"{}\", which names no method, accepted: [[method]] tables, or method = NAME",
          path_));
    }
    for (const ConfigEntry& name : names)
      job_.tables.push_back({name.text, name.where, {{"method", {name}}}});
    if (tables == nullptr) return Done{};
    for (const toml::node& node : *tables)
      if (Status ok = read_table(*node.as_table()); !ok) return ok;
    return label_all();
  }

  Status read_table(const toml::table& table) {
    MethodTable made{"", line_of(table), {}};
    for (const auto& [toml_key, node] : table) {
      const std::string key(toml_key.str());
      if (key == "label") {
        const auto label = node.value_exact<std::string>();
        if (!label || label->empty() || label->find_first_of("\r\n") != label->npos) {
          return toml_error(path_, node.source(),
                            fmt::format("label is {}, accepted: a line of text", toml_text(node)));
        }
        made.label = *label;
        continue;
      }
      const Option* option = key == "name" ? find_option(table_, "method") : option_of(key);
      const std::string name = option != nullptr ? option->name : "";
      if (name.empty() || name == "seed" || (name == "method" && key != "name"))
        return unknown(toml_key, {"name", "label"});
      if (Status ok = read_values(*option, key, node, made.own[name]); !ok) return ok;
    }
    if (made.own.count("method") == 0)
      return user_error(made.where + "[[method]] without a name, accepted: name = \"METHOD\"");
    job_.tables.push_back(std::move(made));
    return Done{};
  }

  // A table without a label gets its name; if another table has the same name, also its settings.
  Status label_all() {
    std::map<std::string, int> tables_of;
    for (const MethodTable& t : job_.tables)
      ++tables_of[t.own.at("method")[0].text];
    std::set<std::string> labels;
    for (MethodTable& t : job_.tables) {
      const std::string name = t.own.at("method")[0].text;
      if (t.label.empty()) {
        t.label = name;
        for (const auto& [option, values] : t.own)
          if (tables_of[name] > 1 && option != "method" && values.size() == 1)
            t.label += fmt::format(" {}={}", option, values[0].text);
      }
      if (!labels.insert(t.label).second)
        return user_error(
            fmt::format("{}label \"{}\" twice, accepted: each label once", t.where, t.label));
    }
    return Done{};
  }

  std::string path_;
  Options scratch_;
  OptionTable table_;
  JobFile job_;
  std::vector<ConfigEntry> seeds_, count_;
};

}  // namespace

Result<JobFile> read_job_file(const std::string& path) { return JobReader(path).read(); }

}  // namespace grapevine
