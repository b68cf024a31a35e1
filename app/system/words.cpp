#include "app/system/words.hpp"

#include <fmt/core.h>

#include <cmath>
#include <ctime>

namespace grapevine {

std::string with_commas(double value) {
  if (!std::isfinite(value)) return "n/a";
  std::string text = fmt::format("{:.0f}", value);
  for (auto at = static_cast<int>(text.size()) - 3; at > (text[0] == '-' ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string as_percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.2f} %", 100 * fraction) : "n/a";
}

std::string as_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "n/a";
  if (seconds < 1) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const double whole = std::round(seconds);
  if (whole >= 3600) {
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(whole / 3600),
                       std::floor(std::fmod(whole, 3600) / 60));
  }
  return fmt::format("{:.0f} min {:02.0f} s", std::floor(whole / 60), std::fmod(whole, 60));
}

std::string as_bytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 999.5 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 99.95 ? 0 : 1, units[unit]);
}

std::string as_short(double value) {
  if (!std::isfinite(value)) return "n/a";
  std::string text = fmt::format("{:.3g}", value);
  const size_t exponent = text.find('e');
  if (exponent != text.npos && text[exponent + 2] == '0') text.erase(exponent + 2, 1);
  return text;
}

std::string as_hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string as_epoch(uint64_t epoch) {
  const uint64_t count = epoch >> 32;
  if (count == 0) return fmt::format("{}", epoch);
  return fmt::format("{}-{:04x}", count, epoch >> 16 & 0xffff);
}

std::string utc_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace grapevine
