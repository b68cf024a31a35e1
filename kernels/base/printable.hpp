// Text from anybody, as it may stand on a terminal and in a log.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace grapevine {

/// How many bytes the character at the front of a text has in UTF-8; 0: it is none.
size_t utf8_length(std::string_view text);

/// The text, but each byte of what is not UTF-8 and of what steers a terminal (ESC, line feeds, all
/// other control characters) as \xNN.
std::string printable(std::string_view text);

}  // namespace grapevine
