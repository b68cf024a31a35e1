// Reads text files line by line, for the readers of LIBSVM and optdigits. Quotes pieces of files
// for error messages.
#pragma once
#include <string>
#include <string_view>

#include "models/files/file.hpp"

namespace grapevine {

/// Calls take(line) for each line, without its end. The first error stops; its message is prefixed
/// by the file and the line. `take` returns a Status whose message says what is wrong with the
/// line. A file whose last line has no line feed is refused as cut, and so is an empty file.
template <class Take>
Status for_each_line(const std::string& path, const Bytes& bytes, Take&& take) {
  if (bytes.empty()) return world_error(path + " is cut: it is empty");
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      return world_error(path + " is cut: line " + with_commas(number) + " has no end");
    }
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const Status ok = take(line); !ok) {
      return world_error(path + ", line " + with_commas(number) + ": " + ok.error().message);
    }
  }
  return Done{};
}

/// A piece of a line for an error message: quoted, at most 20 characters, without unprintable ones.
inline std::string excerpt(std::string_view piece) {
  std::string text = "\"";
  for (const char c : piece.substr(0, 20))
    text += c >= ' ' && c < 127 ? c : '?';
  return text + (piece.size() > 20 ? "...\"" : "\"");
}

/// Changes only ASCII letters.
inline std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace grapevine
