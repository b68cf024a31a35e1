#include "kernels/base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace grapevine {

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [text](size_t k) { return static_cast<uint8_t>(text[k]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  uint32_t code = first & (0x7fu >> length);
  for (size_t k = 1; k < length; ++k) {
    if (byte(k) >> 6 != 2) return 0;
    code = code << 6 | (byte(k) & 63);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // the least code of this length
  const bool is_half = code >> 11 == 0x1b;                     // half of a surrogate pair
  return code < kLeast[length] || code > 0x10ffff || is_half ? 0 : length;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto first = static_cast<uint8_t>(text[0]);
    const bool steers = first < 0x20 || first == 0x7f ||
                        (length == 2 && first == 0xc2 && static_cast<uint8_t>(text[1]) < 0xa0);
    const size_t count = std::max<size_t>(length, 1);
    if (length > 0 && !steers)
      shown += text.substr(0, count);
    else
      for (const char c : text.substr(0, count))
        shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    text.remove_prefix(count);
  }
  return shown;
}

}  // namespace grapevine
