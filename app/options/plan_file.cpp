#include "app/options/plan_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "app/options/options.hpp"
#include "app/options/toml_file.hpp"

namespace grapevine {
namespace {

using Kind = std::variant<RankFaultKind, LinkFaultKind, Reconfiguration>;

struct KindRow {
  const char* name;
  Kind kind;
  std::vector<std::string> keys;  // besides kind and at
  std::vector<std::string> needs;
};

const std::vector<KindRow>& kinds() {
  static const std::vector<KindRow> rows = {
      {"slow", RankFaultKind::slow, {"ranks", "until", "factor"}, {"factor"}},
      {"pause", RankFaultKind::pause, {"ranks", "until"}, {}},
      {"kill", RankFaultKind::kill, {"ranks"}, {}},
      {"restart", RankFaultKind::restart, {"ranks"}, {}},
      {"reconfigure", Reconfiguration{}, {"topology"}, {"topology"}},
      {"loss",
       LinkFaultKind::loss,
       {"ranks", "links", "until", "frames", "probability"},
       {"probability"}},
      {"delay",
       LinkFaultKind::delay,
       {"ranks", "links", "until", "frames", "seconds", "factor"},
       {}},
      {"cut", LinkFaultKind::cut, {"ranks", "links", "until", "frames"}, {}},
      {"one_way", LinkFaultKind::one_way, {"links", "until", "frames"}, {"links"}},
      {"repeat",
       LinkFaultKind::repeat,
       {"ranks", "links", "until", "frames", "probability"},
       {"probability"}},
      {"corrupt",
       LinkFaultKind::corrupt,
       {"ranks", "links", "until", "frames", "probability"},
       {"probability"}},
      {"bandwidth",
       LinkFaultKind::bandwidth,
       {"ranks", "links", "until", "frames", "bytes_per_second"},
       {"bytes_per_second"}},
  };
  return rows;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Reads one [[fault]] table, up to the first error.
class FaultReader {
 public:
  FaultReader(const std::string& path, const toml::table& table) : path_(path), table_(table) {}

  Status into(Plan& plan) {
    const KindRow* row = read_kind();
    if (row == nullptr) return *wrong_;
    if (Status known = check_keys(*row); !known) return known;
    if (const auto* kind = std::get_if<RankFaultKind>(&row->kind)) {
      plan.rank_faults.push_back({*kind, ranks(), at(), until(), number("factor", 1), where()});
    } else if (const auto* kind = std::get_if<LinkFaultKind>(&row->kind)) {
      plan.link_faults.push_back({*kind, frames(), ranks(), links(), at(), until(),
                                  number("probability", 1), number("seconds", 0),
                                  number("factor", 1), number("bytes_per_second", 0), where()});
    } else {
      plan.reconfigurations.push_back(
          {at(), text("topology", "a graph, for instance \"ring\""), where()});
    }
    if (wrong_) return *wrong_;
    return Done{};
  }

 private:
  void complain(const toml::source_region& where, const std::string& what) {
    if (!wrong_) wrong_ = toml_error(path_, where, what);
  }
  void refuse(const std::string& key, const toml::node& node, const std::string& accepted) {
    complain(node.source(), fmt::format("{} is {}, accepted: {}", key, toml_text(node), accepted));
  }

  const KindRow* read_kind() {
    std::vector<std::string> names;
    for (const KindRow& row : kinds())
      names.push_back(row.name);
    const toml::node* node = table_.get("kind");
    if (node == nullptr) {
      complain(table_.source(), "a fault without kind, accepted: " + list(names));
      return nullptr;
    }
    const auto name = node->value_exact<std::string>();
    for (const KindRow& row : kinds())
      if (name == row.name) return &row;
    refuse("kind", *node, list(names));
    return nullptr;
  }

  Status check_keys(const KindRow& row) {
    std::vector<std::string> accepted = {"kind", "at"};
    accepted.insert(accepted.end(), row.keys.begin(), row.keys.end());
    for (const auto& [toml_key, node] : table_) {
      const std::string key(toml_key.str());
      if (std::find(accepted.begin(), accepted.end(), key) == accepted.end()) {
        return toml_error(path_, toml_key.source(),
                          fmt::format("unknown key {} of {}{}, accepted: {}", key, row.name,
                                      nearest(key, accepted), list(accepted)));
      }
    }
    for (const std::string& key : row.needs) {
      if (!table_.contains(key))
        return toml_error(path_, table_.source(),
                          fmt::format("{} needs the key {}", row.name, key));
    }
    return Done{};
  }

  double number(const std::string& key, double otherwise) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return otherwise;
    if (node->is_number()) return *node->value<double>();
    refuse(key, *node, "a number");
    return otherwise;
  }
  std::string where() const { return fmt::format("{}:{}", path_, table_.source().begin.line); }
  double at() { return number("at", 0); }
  double until() { return number("until", kNever); }

  std::string text(const std::string& key, const std::string& accepted) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return {};
    if (const auto value = node->value_exact<std::string>()) return *value;
    refuse(key, *node, accepted);
    return {};
  }

  FrameClass frames() {
    const std::string name = text("frames", "\"control\", \"bulk\", \"all\"");
    if (name == "control") return FrameClass::control;
    if (name == "bulk") return FrameClass::bulk;
    if (!name.empty() && name != "all")
      refuse("frames", *table_.get("frames"), "\"control\", \"bulk\", \"all\"");
    return FrameClass::all;
  }

  std::optional<int> rank(const toml::node& node) {
    const auto value = node.value_exact<int64_t>();
    if (!value || *value < INT32_MIN || *value > INT32_MAX) return {};
    return static_cast<int>(*value);
  }

  std::vector<int> ranks() {
    const toml::node* node = table_.get("ranks");
    if (node == nullptr) return {};
    const char* accepted = "a list of ranks, for instance [0, 3]";
    std::vector<int> out;
    if (const toml::array* array = node->as_array(); array != nullptr && !array->empty()) {
      for (const toml::node& element : *array) {
        if (const auto value = rank(element)) {
          out.push_back(*value);
        } else {
          refuse("ranks", *node, accepted);
        }
      }
    } else {
      refuse("ranks", *node, accepted);
    }
    return out;
  }

  std::vector<std::pair<int, int>> links() {
    const toml::node* node = table_.get("links");
    if (node == nullptr) return {};
    const char* accepted = "a list of pairs of ranks, for instance [[0, 1]]";
    std::vector<std::pair<int, int>> out;
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty()) refuse("links", *node, accepted);
    if (array == nullptr) return out;
    for (const toml::node& element : *array) {
      const toml::array* pair = element.as_array();
      const bool two = pair != nullptr && pair->size() == 2;
      const auto i = two ? rank((*pair)[0]) : std::nullopt;
      const auto j = two ? rank((*pair)[1]) : std::nullopt;
      if (i && j) {
        out.emplace_back(*i, *j);
      } else {
        refuse("links", *node, accepted);
      }
    }
    return out;
  }

  const std::string& path_;
  const toml::table& table_;
  std::optional<Error> wrong_;
};

}  // namespace

namespace {

Result<Plan> plan_of(const std::string& path, const toml::table& file) {
  Plan plan;
  for (const auto& [key, node] : file) {
    if (key.str() != "fault") {
      return toml_error(
          path, key.source(),
          fmt::format("unknown key {}, accepted: a list of [[fault]] tables", key.str()));
    }
    const toml::array* faults = node.as_array();
    if (faults == nullptr || !faults->is_homogeneous(toml::node_type::table))
      return toml_error(path, node.source(), "fault, accepted: a list of [[fault]] tables");
    for (const toml::node& fault : *faults)
      if (Status read = FaultReader(path, *fault.as_table()).into(plan); !read) return read.error();
  }
  return plan;
}

}  // namespace

Result<Plan> read_plan(const std::string& path) {
  const auto file = read_toml("plan", path);
  if (!file) return file.error();
  return plan_of(path, *file);
}

Result<Plan> plan_of_text(const std::string& name, const std::string& text) {
  const auto parsed = parse_toml(name, text);
  if (!parsed) return parsed.error();
  return plan_of(name, *parsed);
}

}  // namespace grapevine
