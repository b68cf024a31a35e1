#include "app/words.hpp"

#include <cmath>
#include <cstdio>

namespace grapevine {
namespace {

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string with_commas(double value) {
  if (!std::isfinite(value)) return "n/a";
  std::string text = formatted("%.0f", value);
  for (auto at = static_cast<int>(text.size()) - 3; at > (text[0] == '-' ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string as_percent(double fraction) {
  return std::isfinite(fraction) ? formatted("%.2f %%", 100 * fraction) : "n/a";
}

std::string as_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "n/a";
  if (seconds < 1) return formatted("%.0f ms", 1e3 * seconds);
  if (seconds < 99.95) return formatted("%.1f s", seconds);
  const double whole = std::round(seconds);
  if (whole >= 3600) {
    return formatted("%.0f h ", std::floor(whole / 3600)) +
           formatted("%02.0f min", std::floor(std::fmod(whole, 3600) / 60));
  }
  return formatted("%.0f min ", std::floor(whole / 60)) +
         formatted("%02.0f s", std::fmod(whole, 60));
}

std::string as_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 999.5 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return formatted(unit == 0 || bytes >= 99.95 ? "%.0f " : "%.1f ", bytes) + units[unit];
}

std::string as_short(double value) {
  if (!std::isfinite(value)) return "n/a";
  std::string text = formatted("%.3g", value);
  const size_t exponent = text.find('e');
  if (exponent != text.npos && text[exponent + 2] == '0') text.erase(exponent + 2, 1);
  return text;
}

}  // namespace grapevine
