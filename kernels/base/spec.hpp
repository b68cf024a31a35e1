// Spec: a name with values in one word, as a user writes it: "torus:4x4", "dirichlet:0.1",
// "powergossip:rank=2,start=warm". For graphs, weights, partitions and compressors.
//
// Its views point into a text that must outlive them.
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace grapevine {

struct Spec {
  /// Cuts `text` at the first `mark`.
  explicit Spec(std::string_view text, char mark = ':') : name(text.substr(0, text.find(mark))) {
    if (name.size() < text.size()) value = text.substr(name.size() + 1);
  }

  std::vector<std::string_view> parts(char mark) const;  // of the value; empty: there is no value

  std::string_view name;
  std::optional<std::string_view> value;  // empty: there is no mark
};

/// "a,,b" has three parts; an empty text has one.
inline std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> found;
  for (std::optional<std::string_view> rest = text; rest;) {
    const Spec cut(*rest, mark);
    found.push_back(cut.name);
    rest = cut.value;
  }
  return found;
}

inline std::vector<std::string_view> Spec::parts(char mark) const {
  return value ? split(*value, mark) : std::vector<std::string_view>{};
}

/// The number that the whole text is, without spaces or a plus sign; empty: it is no number.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// A number for a line that people read, with at most `digits` digits.
inline std::string shown(double value, int digits = 6) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits);
  return {text, end.ptr};
}

}  // namespace grapevine
