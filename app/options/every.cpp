#include "app/options/every.hpp"

#include <fmt/core.h>

#include <string_view>

#include "kernels/base/spec.hpp"

namespace grapevine {

Result<Every> every_of(const char* option, const std::string& text) {
  const std::string_view all = text;
  const auto before = [&](std::string_view unit) {
    return all.size() > unit.size() && all.ends_with(unit)
               ? std::string(all.substr(0, all.size() - unit.size()))
               : std::string();
  };
  if (text.empty() || text == "0") return Every{};
  const auto steps = number_of<uint64_t>(before("steps"));
  if (steps && *steps > 0) return Every{0, *steps};
  const auto seconds = number_of<double>(before("s"));
  if (seconds && *seconds > 0 && *seconds < 1e9) return Every{*seconds, 0};
  return user_error(fmt::format("{} is \"{}\", accepted: 60s, 1000steps or 0", option, text));
}

}  // namespace grapevine
