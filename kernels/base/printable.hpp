// Makes text from any source safe for a terminal and a log.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace grapevine {

/// The number of bytes in the first character of a UTF-8 text; 0: it is not UTF-8.
size_t utf8_length(std::string_view text);

/// The text with \xNN for each byte that is not UTF-8 and for each control character (ESC, line
/// feeds and all others).
std::string printable(std::string_view text);

}  // namespace grapevine
