// Reads a graph from a file, one edge per line:
//
//   i j rate      rate in exchanges per unit of time. If no line has a rate, the rates are those
//                 of a named graph
//   i,j,rate      commas, semicolons, blanks and tabs are equivalent
//   i j {'weight': rate, 'color': 'red'}      the format of networkx.write_edgelist; the
//                                             attribute weight or rate is the rate
//
// Everything after a # is a comment, empty lines are allowed, and the first other line may be a
// header.
#include "topologies/edge_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <tuple>
#include <utility>

#include "kernels/base/read_text.hpp"
#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"

namespace grapevine {
namespace {

struct Line {
  Edge edge;
  bool rated = false;
  int number = 0;
};

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r,;{}:'\"";
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(kBetween); at != text.npos;
       at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// A line: its words, and the text in its braces.
struct Parts {
  std::vector<std::string_view> words;
  std::optional<std::string_view> attributes;
};

// A # within quotes begins no comment: colours are written so.
Parts parts_of(std::string_view text) {
  char quote = 0;
  size_t open = text.npos, end = 0;
  for (; end < text.size() && (quote != 0 || text[end] != '#'); ++end) {
    const char c = text[end];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (open != text.npos && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '{' && open == text.npos) {
      open = end;
    }
  }
  text = text.substr(0, end);
  Parts parts{words_of(text.substr(0, open)), {}};
  if (open != text.npos) parts.attributes = text.substr(open + 1);
  return parts;
}

// The value of weight or rate among attributes in Python's format; empty: there is none.
std::string_view rate_among(std::string_view attributes) {
  char quote = 0;
  int depth = 0;  // of lists and similar values, whose words are no keys
  for (size_t at = 0, begin = 0; at < attributes.size(); ++at) {
    const char c = attributes[at];
    if (quote == 0) {
      depth += c == '[' || c == '(' || c == '{' ? 1 : c == ']' || c == ')' || c == '}' ? -1 : 0;
      if (c == '\'' || c == '"') quote = c, begin = at + 1;
      continue;
    }
    if (c != quote) continue;
    quote = 0;
    const std::string_view key = attributes.substr(begin, at - begin);
    const size_t colon = attributes.find_first_not_of(' ', at + 1);
    const bool names_value = colon != attributes.npos && attributes[colon] == ':';
    if (depth != 0 || !names_value || (key != "weight" && key != "rate")) continue;
    const auto value = words_of(attributes.substr(colon));
    return value.empty() ? attributes.substr(colon, 1) : value.front();
  }
  return {};
}

std::optional<Line> line_of(std::vector<std::string_view> words, int number) {
  if (words.size() == 4 && (words[2] == "weight" || words[2] == "rate"))
    words.erase(words.begin() + 2);
  if (words.size() != 2 && words.size() != 3) return std::nullopt;
  const auto i = number_of<int64_t>(words[0]), j = number_of<int64_t>(words[1]);
  const bool rated = words.size() == 3;
  const auto rate = rated ? number_of<double>(words[2]) : std::optional(1.0);
  if (!i || !j || !rate || *i != static_cast<int>(*i) || *j != static_cast<int>(*j)) {
    return std::nullopt;
  }
  const Edge edge{static_cast<int>(std::min(*i, *j)), static_cast<int>(std::max(*i, *j)), *rate};
  return Line{edge, rated, number};
}

// Column names: words that are no numbers.
bool is_header(const std::vector<std::string_view>& words) {
  return words.size() >= 2 && words.size() <= 3 &&
         std::ranges::none_of(words,
                              [](std::string_view w) { return number_of<double>(w).has_value(); });
}

// Sorts the lines by their edge. Returns the error for a repeated edge; empty: there is none.
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
  return fmt::format("{}: edge {} {} is given already in line {}; every edge must be given once",
                     twice[1].number, twice->edge.i, twice->edge.j, twice->number);
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
  for (const Edge& edge : edges->edges)
    highest = std::max({highest, edge.i, edge.j});
  return highest + 1;
}

Result<EdgeList> read_edge_file(const std::string& path, int ranks) {
  constexpr size_t kMostMib = 1024;
  auto content = read_text(path, kMostMib);
  if (!content) {
    return user_error(
        fmt::format("topology {}: {}; a spec with '/' or '.' names a file "
                    "of lines `i j rate` or `i j`",
                    in_quotes(path), content.error().message));
  }
  std::istringstream file(*std::move(content));
  const auto at_line = [&](const std::string& rest) {
    return user_error(fmt::format("topology {} line {}", in_quotes(path), rest));
  };
  std::vector<Line> lines;
  std::string text;
  bool begun = false;  // a line other than a comment has come
  for (int number = 1; std::getline(file, text); ++number) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (number == 1 && text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    auto [words, attributes] = parts_of(text);
    if (words.empty() && !attributes) continue;
    if (!std::exchange(begun, true) && is_header(words)) continue;
    if (const auto rate = rate_among(attributes.value_or("")); !rate.empty()) words.push_back(rate);
    const auto line = line_of(words, number);
    if (!line) {
      return at_line(
          fmt::format("{}: {} is not of the form `i j rate` or `i j` with two ranks and a number",
                      number, in_quotes(text)));
    }
    if (!lines.empty() && line->rated != lines.front().rated) {
      return at_line(fmt::format("{}: {} has {} and line {} has {}; all lines must be alike",
                                 number, in_quotes(text), line->rated ? "a rate" : "no rate",
                                 lines.front().number, line->rated ? "none" : "one"));
    }
    const std::string complaint = edge_complaint(line->edge, ranks);
    if (!complaint.empty()) return at_line(fmt::format("{}: {}", number, complaint));
    lines.push_back(*line);
  }
  const std::string repeated = repeated_edge(lines);
  if (!repeated.empty()) return at_line(repeated);
  EdgeList list;
  list.rates_given = lines.empty() || lines.front().rated;
  for (const Line& line : lines)
    list.edges.push_back(line.edge);
  return list;
}

}  // namespace grapevine
