// A graph from a file: one edge a line, `i j rate`, rate in exchanges per unit of time; everything
// after a # is a comment, empty lines are allowed.
#include "topologies/edge_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "kernels/spec.hpp"
#include "topologies/graphs.hpp"

namespace grapevine {
namespace {

struct Line {
  Edge edge;
  int number = 0;
};

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(kBlank); at != text.npos;
       at = text.find_first_not_of(kBlank, at)) {
    const size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<Edge> edge_of(const std::vector<std::string_view>& words) {
  if (words.size() != 3) return std::nullopt;
  const auto i = number_of<int64_t>(words[0]), j = number_of<int64_t>(words[1]);
  const auto rate = number_of<double>(words[2]);
  if (!i || !j || !rate || *i != static_cast<int>(*i) || *j != static_cast<int>(*j)) {
    return std::nullopt;
  }
  return Edge{static_cast<int>(std::min(*i, *j)), static_cast<int>(std::max(*i, *j)), *rate};
}

// Sorts the lines by their edge.
std::string repeated_edge(std::vector<Line>& lines) {
  const auto order = [](const Line& line) {
    return std::tuple(line.edge.i, line.edge.j, line.number);
  };
  std::ranges::sort(lines, {}, order);
  const auto same = [](const Line& a, const Line& b) {
    return a.edge.i == b.edge.i && a.edge.j == b.edge.j;
  };
  const auto twice = std::ranges::adjacent_find(lines, same);
  if (twice == lines.end()) return {};
  return std::to_string(twice[1].number) + ": edge " + std::to_string(twice->edge.i) + " " +
         std::to_string(twice->edge.j) + " is given already in line " +
         std::to_string(twice->number) + "; every edge must be given once";
}

}  // namespace

Result<int> ranks_of_edge_file(const std::string& spec) {
  constexpr std::string_view kSpanning = "spanning:";
  if (spec.starts_with(kSpanning)) {
    const size_t root = std::min(spec.find_last_of('@'), spec.size());
    return ranks_of_edge_file(spec.substr(kSpanning.size(), root - kSpanning.size()));
  }
  const auto edges = read_edge_file(spec, kMostRanks);
  if (!edges) return edges.error();
  int highest = 0;
  for (const Edge& edge : *edges)
    highest = std::max({highest, edge.i, edge.j});
  return highest + 1;
}

Result<std::vector<Edge>> read_edge_file(const std::string& path, int ranks) {
  std::error_code ignored;
  const bool regular = !std::filesystem::is_directory(path, ignored);
  std::ifstream file(path);
  if (!regular || !file) {
    return user_error("topology " + in_quotes(path) +
                      ": no such file to read; a spec with '/' or '.' "
                      "names a file of lines `i j rate`");
  }
  const auto at_line = [&](const std::string& rest) {
    return user_error("topology " + in_quotes(path) + " line " + rest);
  };
  std::vector<Line> lines;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    const auto words = words_of(std::string_view(text).substr(0, text.find('#')));
    if (words.empty()) continue;
    const auto edge = edge_of(words);
    if (!edge) {
      return at_line(std::to_string(number) + ": " + in_quotes(text) +
                     " is not of the form `i j rate` with two ranks and a number");
    }
    const std::string complaint = edge_complaint(*edge, ranks);
    if (!complaint.empty()) return at_line(std::to_string(number) + ": " + complaint);
    lines.push_back({*edge, number});
  }
  if (file.bad()) return world_error("topology " + in_quotes(path) + ": reading the file failed");
  const std::string repeated = repeated_edge(lines);
  if (!repeated.empty()) return at_line(repeated);
  std::vector<Edge> edges;
  for (const Line& line : lines) edges.push_back(line.edge);
  return edges;
}

}  // namespace grapevine
