// Makes text from any source safe for a terminal and a log.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace grapevine {

/// How many bytes the character at the front of a text has in UTF-8; 0: it is none.
size_t utf8_length(std::string_view text);

/// The text, with each byte that is not UTF-8 and each control character (ESC, line feeds and all
/// others) written as \xNN.
std::string printable(std::string_view text);

}  // namespace grapevine
