#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace grapevine::tidy {
namespace {

using Folders = std::set<std::string>;

// The folders of a part, from the lowest layer to the highest. A folder may include those of the
// layers below it; folders of one layer do not include each other. The part's own name is a folder:
// the files at its top.
struct Part {
  const char* name;
  std::vector<std::vector<const char*>> layers;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> list{
      {"kernels", {{"base"}, {"device"}, {"memory"}, {"passes"}, {"codecs", "gpu"}}},
      {"models", {{"files"}, {"data"}, {""}, {"network"}}},
      {"actors",
       {{"algorithms", "clocks", "guard", "membership", "transport"},
        {"conversations"},
        {"settings"},
        {"mail", "device"},
        {"compute"},
        {"rank"},
        {"node"},
        {"cluster"},
        {"guests"},
        {"state"},
        {"run"},
        {"include"}}},  // the public headers
      {"app",
       {{"include"},  // the public headers of app
        {"system"},
        {"options"},
        {"evaluation"},
        {"output"},
        {"checkpoint", "metrics"},
        {"run"},
        {"commands"},
        {"compare", "launch", "reproduce"},
        {""}}},  // main.cpp
  };
  return list;
}

std::string folder_named(const std::string& part, const std::string& folder) {
  return folder.empty() ? part : part + "/" + folder;
}

// The other parts that the folders of a part may include. A folder with its own list may include
// less.
const std::map<std::string, Folders>& foreign() {
  static const Folders below_actors{"kernels", "topologies", "messages", "models"};
  static const Folders all{"kernels", "topologies", "messages", "models", "actors"};
  static const std::map<std::string, Folders> map{
      {"kernels", {}},
      {"topologies", {"kernels"}},
      {"messages", {"kernels"}},
      {"models", {"kernels", "topologies"}},
      {"actors", below_actors},
      {"actors/algorithms", {"kernels", "topologies"}},
      {"actors/conversations", {"kernels", "topologies", "messages"}},
      {"actors/membership", {"kernels", "messages"}},
      {"actors/transport", {"kernels", "messages"}},
      {"actors/clocks", {"kernels"}},
      {"actors/guard", {}},
      {"app", all},
      {"tests", {"kernels", "topologies", "messages", "models", "actors", "app"}},
      {"examples", all},
  };
  return map;
}

// Which folders a folder may include, beside itself.
const std::map<std::string, Folders>& allowed() {
  static const std::map<std::string, Folders> map = [] {
    std::map<std::string, Folders> all;
    for (const Part& part : parts()) {
      Folders below;
      for (const auto& layer : part.layers) {
        for (const char* name : layer)
          all[folder_named(part.name, name)] = below;
        for (const char* name : layer)
          below.insert(folder_named(part.name, name));
      }
      all.try_emplace(part.name);  // not in a layer: no file is there
    }
    for (const auto& [folder, may] : foreign())
      all.try_emplace(folder);
    const auto folders_of = [&](const std::string& part) {
      Folders folders;
      for (const auto& [folder, may] : all)
        if (folder == part || folder.starts_with(part + "/")) folders.insert(folder);
      return folders;
    };
    for (auto& [folder, may] : all) {
      const auto own = foreign().find(folder);
      const auto& taken =
          own != foreign().end() ? own->second : foreign().at(folder.substr(0, folder.find('/')));
      for (const std::string& part : taken)
        may.merge(folders_of(part));
    }
    return all;
  }();
  return map;
}

bool has_layer(const std::string& folder) {
  const auto part = std::ranges::find(parts(), folder, &Part::name);
  if (part == parts().end()) return true;
  return std::ranges::any_of(part->layers, [](const auto& layer) {
    return std::ranges::find(layer, std::string()) != layer.end();
  });
}

// topologies/ is beside kernels/, and takes no more of it than these.
const Folders kForTopologies{"kernels/base/check.hpp",    "kernels/base/mutex.hpp",
                             "kernels/base/random.hpp",   "kernels/base/read_text.hpp",
                             "kernels/base/registry.hpp", "kernels/base/result.hpp",
                             "kernels/base/spec.hpp"};

struct LibraryRule {
  const char* library;
  const char* headers;  // a pattern that the include matches from its start
  Folders folders;      // that may see it, or whole parts; tests may see everything
};

const std::vector<LibraryRule>& library_rules() {
  static const std::vector<LibraryRule> list{
      {"Eigen", "(unsupported/)?Eigen/", {"topologies"}},
      {"LibTorch", "(torch|ATen|c10)/", {"models/network", "actors/include", "examples"}},
      {"Cap'n Proto", "capnp/|.*\\.capnp\\.h$", {"messages"}},
      {"KJ", "kj/", {"messages", "actors/transport"}},
      {"OpenSSL", "openssl/", {"actors/transport"}},
      {"CAF",
       "caf/",
       {"actors/clocks", "actors/mail", "actors/device", "actors/compute", "actors/rank",
        "actors/node", "actors/cluster", "actors/guests", "actors/state", "actors/run",
        "actors/include", "app", "examples"}},
      {"xxHash", "xxh", {"kernels/base"}},
      {"spdlog", "spdlog/", {"app/output"}},
      {"toml++", "toml\\+\\+|toml\\.hpp", {"app"}},
      {"CLI11", "CLI/", {"app/commands"}},
      {"cpp-httplib", "httplib", {"app/metrics"}},
      {"nlohmann-json", "nlohmann/", {"app", "models/files"}},
      {"zlib, lzma and libzip", "(zlib|lzma|zip)\\.h", {"models/files"}},
      {"CUDA and NCCL",
       "cuda|nccl|cublas|cub/|thrust/|cooperative_groups|nvToolsExt|nvtx",
       {"kernels/passes", "kernels/gpu"}},
      {"Catch2", "catch2/", {}},
      {"rapidcheck", "rapidcheck", {}},
      {"Google Benchmark", "benchmark/", {}},
  };
  return list;
}

std::string folder_of(const std::string& path) {
  std::string found;
  for (const auto& [folder, may] : allowed()) {
    if (path.starts_with(folder + "/") && folder.size() > found.size()) found = folder;
  }
  return found;
}

const LibraryRule* rule_of(const std::string& included) {
  for (const LibraryRule& rule : library_rules()) {
    if (std::regex_search(included, std::regex(std::string("^(") + rule.headers + ")"))) {
      return &rule;
    }
  }
  return nullptr;
}

bool may_see(const std::string& folder, const LibraryRule& rule) {
  return folder == "tests" || rule.folders.count(folder) != 0 ||
         rule.folders.count(folder.substr(0, folder.find('/'))) != 0;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

struct Include {
  size_t line;  // from 1
  std::string name;
  bool quoted;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  std::vector<Include> includes;
  size_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    std::smatch match;
    if (line.find("include") != line.npos && std::regex_search(line, match, pattern)) {
      includes.push_back({number, match[2], match[1] == "\""});
    }
  }
  return includes;
}

bool is_source(const std::string& path, const Files& files) {
  return std::ranges::any_of(std::array{".cpp", ".hpp", ".cu", ".py"},
                             [&](const char* ending) { return files.count(path + ending) != 0; });
}

std::string at(const std::string& path, size_t line) {
  return path + ":" + std::to_string(line) + ": ";
}

void check_include(const std::string& path, const Include& include, Complaints& out) {
  const std::string folder = folder_of(path), target = folder_of(include.name);
  const std::string here = at(path, include.line);
  if (const LibraryRule* rule = rule_of(include.name)) {
    if (!may_see(folder, *rule)) {
      out.push_back(here + "includes " + include.name + ", but " + rule->library +
                    " stays out of " + folder + "/");
    }
  } else if (target.empty()) {
    if (include.quoted) {
      out.push_back(here + "includes " + include.name + ", not by its path from the root");
    }
  } else if (target != folder && allowed().at(folder).count(target) == 0) {
    out.push_back(here + "includes " + include.name + ", but no include is allowed from " + folder +
                  "/ to " + target + "/");
  } else if (folder == "topologies" && target != folder &&
             kForTopologies.count(include.name) == 0) {
    out.push_back(here + "includes " + include.name +
                  ", but topologies/ takes only basic tools of kernels/base/");
  }
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Columns of a line without its long string literals; a row of a table of numbers counts nothing.
size_t columns(const std::string& line) {
  static const std::regex literal("\"([^\"\\\\]|\\\\.)*\"");
  static const std::string row = " \t+-.,;xXabcdefABCDEF0123456789{}()";
  if (characters(line) <= 100 || line.find_first_not_of(row) == line.npos) return 0;
  return characters(std::regex_replace(line, literal, "\"\""));
}

void check_words(const std::string& path, const std::string& line, size_t number, Complaints& out) {
  static const std::regex later(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X)\\b");
  static const std::regex distribution("std::[a-z_]+_distribution");
  static const std::regex sleeping(
      "\\b(sleep_"
      "for|sleep_"
      "until|u"
      "sleep|nano"
      "sleep)\\b");
  static const std::regex mutex("std::(shared_|recursive_)?mutex");
  std::smatch match;
  if (std::regex_search(line, match, later)) {
    out.push_back(at(path, number) + "says " + match.str() + ", do it or leave it");
  }
  if (std::regex_search(line, match, distribution)) {
    out.push_back(at(path, number) + "uses " + match.str() + ", draws are those of Random");
  }
  const std::string folder = folder_of(path);
  if (folder != "tests" && path != "kernels/base/mutex.hpp" &&
      std::regex_search(line, match, mutex)) {
    out.push_back(at(path, number) + "uses " + match.str() + ", accepted: Mutex and SharedMutex, " +
                  "whose members clang checks");
  }
  if (!folder.starts_with("app") && std::regex_search(line, match, sleeping)) {
    out.push_back(at(path, number) + "uses " + match.str() + ", only app/ may sleep");
  }
}

std::string too_wide(const std::string& path, size_t line, size_t wide) {
  return at(path, line + 1) + std::to_string(wide) + " columns, accepted: 100";
}

void check_lengths(const std::string& path, const std::vector<std::string>& lines,
                   Complaints& out) {
  size_t start = 0;  // the last line at column 0 that looks like the head of a function, from 1
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (const size_t wide = columns(line); wide > 100) out.push_back(too_wide(path, i, wide));
    if (line.starts_with("}")) {
      if (line == "}" && start != 0 && i + 1 - start + 1 > 70) {
        out.push_back(at(path, start) + "a function of " + std::to_string(i + 1 - start + 1) +
                      " lines, accepted: 70");
      }
      start = 0;
    } else if (start == 0 && !line.empty() && std::isalpha(static_cast<unsigned char>(line[0])) &&
               line.find('(') != line.npos && !line.ends_with(";")) {
      start = i + 1;
    }
  }
}

}  // namespace

Complaints check_includes(const std::string& path, const std::string& text) {
  Complaints out;
  const std::string folder = folder_of(path);
  if (!has_layer(folder))
    out.push_back(at(path, 1) + "is at the top of " + folder + "/, in none of its folders");
  for (const Include& include : includes_of(text))
    check_include(path, include, out);
  return out;
}

Complaints check_style(const std::string& path, const std::string& text) {
  Complaints out;
  const auto lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i)
    check_words(path, lines[i], i + 1, out);
  check_lengths(path, lines, out);
  return out;
}

Complaints check_script(const std::string& path, const std::string& text) {
  Complaints out;
  const auto lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i)
    if (const auto wide = characters(lines[i]); wide > 100) out.push_back(too_wide(path, i, wide));
  return out;
}

Complaints check_reach(const Tree& tree) {
  std::map<std::string, std::vector<Include>> includes;
  for (const auto& [path, text] : tree)
    includes[path] = includes_of(text);
  Complaints out;
  for (const auto& [path, own] : includes) {
    std::set<std::string> seen;
    for (const Include& first : own) {
      std::vector<std::string> open{first.name};
      while (!open.empty()) {
        const std::string header = open.back();
        open.pop_back();
        if (!includes.count(header) || !seen.insert(header).second) continue;
        for (const Include& next : includes.at(header)) {
          open.push_back(next.name);
          const LibraryRule* rule = rule_of(next.name);
          if (rule && !may_see(folder_of(path), *rule)) {
            out.push_back(at(path, first.line) + "reaches " + next.name + " through " + header +
                          ", but " + rule->library + " stays out of " + folder_of(path) + "/");
          }
        }
      }
    }
  }
  return out;
}

Complaints check_walks(const std::string& page, const std::string& text, const Files& files) {
  static const std::regex head("^## (.*): ([0-9]+) files$"), row("^\\| `([a-z0-9_/]+)` \\| ");
  Complaints out;
  std::string walk, said;
  std::set<std::string> named;
  const auto end = [&] {
    if (!walk.empty() && std::to_string(named.size()) != said)
      out.push_back(page + ": " + walk + " names " + std::to_string(named.size()) +
                    " files, and says " + said);
    named.clear();
  };
  for (const std::string& line : lines_of(text)) {
    std::smatch match;
    if (std::regex_search(line, match, head)) {
      end();
      walk = match[1];
      said = match[2];
    } else if (std::regex_search(line, match, row)) {
      named.insert(match[1]);
      if (!is_source(match[1], files))
        out.push_back(page + ": " + walk + " walks through " + match.str(1) +
                      ", which is not there");
    }
  }
  end();
  if (walk.empty()) out.push_back(page + ": no walk");
  return out;
}

Complaints check_page(const std::string& page, const std::string& text, const Files& files) {
  constexpr size_t kMost = 60;
  static const std::regex quoted("`([A-Za-z0-9_./]+)`");
  const std::string folder = page.substr(0, page.rfind('/') + 1);
  const auto lines = lines_of(text);
  Complaints out;
  if (lines.size() > kMost)
    out.push_back(page + ": " + std::to_string(lines.size()) +
                  " lines, accepted: " + std::to_string(kMost));
  bool in_table = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("| file |")) in_table = true;
    if (!lines[i].starts_with("|")) in_table = false;
    if (!in_table) continue;
    const std::string names = lines[i].substr(0, lines[i].find(" | "));
    for (std::sregex_iterator name(names.begin(), names.end(), quoted), end; name != end; ++name) {
      const std::string path = folder + name->str(1);
      const auto inside = files.lower_bound(path);  // of a folder
      const bool is_folder =
          path.ends_with("/") && inside != files.end() && inside->starts_with(path);
      if (!files.count(path) && !is_folder && !is_source(path, files))
        out.push_back(at(page, i + 1) + "tells of " + name->str(1) + ", which is not there");
    }
  }
  return out;
}

Complaints check_names(const std::string& path, const std::string& text, const Files& endings) {
  static const std::regex comment("(^|[^:])//(.*)"),
      name(
          "(^|[^A-Za-z0-9_./<*-])([A-Za-z_][A-Za-z0-9_/"
          "]*\\.(hpp|cpp|cu|py|capnp|md))($|[^A-Za-z0-9_])");
  Complaints out;
  size_t number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    std::smatch match;
    if (line.find("//") == line.npos || !std::regex_search(line, match, comment)) continue;
    const std::string said = match[2];
    for (std::sregex_iterator one(said.begin(), said.end(), name), end; one != end; ++one)
      if (!endings.count(one->str(2)))
        out.push_back(at(path, number) + "names " + one->str(2) + ", which is not there");
  }
  return out;
}

std::vector<std::string> pages() {
  std::vector<std::string> all;
  for (const Part& part : parts()) {
    all.push_back(std::string(part.name) + "/README.md");
    for (const auto& layer : part.layers)
      for (const std::string folder : layer)
        if (!folder.empty() &&
            folder != "include")  // public headers are in the page of their folder
          all.push_back(folder_named(part.name, folder) + "/README.md");
  }
  for (const char* part : {"topologies", "messages", "tests", "examples", "app/python"})
    all.push_back(part + std::string("/README.md"));
  return all;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Tree read_tree(const std::string& root) {
  namespace fs = std::filesystem;
  static const std::set<std::string> endings{".hpp", ".cpp", ".cu", ".cuh"};
  Tree tree;
  for (const auto& [folder, may] : allowed()) {
    if (folder.find('/') != folder.npos || !fs::exists(fs::path(root) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
      if (!entry.is_regular_file() || !endings.count(entry.path().extension())) continue;
      tree[fs::relative(entry.path(), root)] = text_of(entry.path());
    }
  }
  return tree;
}

Files list_files(const std::string& root) {
  namespace fs = std::filesystem;
  Files files;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_regular_file()) files.insert(entry.path().filename());
  for (const auto& [folder, may] : allowed()) {
    if (folder.find('/') != folder.npos || !fs::exists(fs::path(root) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder))
      if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), root));
  }
  return files;
}

Files endings_of(const Files& files) {
  Files endings;
  for (const std::string& path : files) {
    endings.insert(path);
    for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1))
      endings.insert(path.substr(slash + 1));
  }
  return endings;
}

}  // namespace grapevine::tidy
