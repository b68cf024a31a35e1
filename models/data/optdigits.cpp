#include <fmt/core.h>

#include <charconv>

#include "models/data/readers.hpp"
#include "models/data/text.hpp"

namespace grapevine {
namespace {

constexpr int kDigitPixels = 8 * 8;
constexpr int kDarkest = 16;
constexpr int kLargestLabel = 9;

Status take_line(std::string_view line, Samples& samples) {
  for (int column = 0; column <= kDigitPixels; ++column) {
    const size_t comma = line.find(',');
    const bool last = column == kDigitPixels;
    if ((comma == std::string_view::npos) != last) {
      return world_error((last ? "more" : "fewer") + std::string(" than the 65 numbers expected"));
    }
    const std::string_view cell = line.substr(0, comma);
    const int largest = last ? kLargestLabel : kDarkest;
    int value = -1;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size() || value < 0 || value > largest) {
      return world_error(
          fmt::format("number {} is {}, accepted: 0 to {}", column + 1, excerpt(cell), largest));
    }
    if (last)
      samples.labels.push_back(static_cast<uint16_t>(value));
    else
      samples.pixels.push_back(static_cast<uint8_t>(value));
    if (!last) line.remove_prefix(comma + 1);
  }
  return Done{};
}

}  // namespace

Result<Samples> read_optdigits(const std::string& path) {
  const Result<Bytes> bytes = read_whole_file(path);
  if (!bytes) return bytes.error();
  Samples samples;
  samples.shape = {1, 8, 8, true};
  const Status ok = for_each_line(
      path, *bytes, [&samples](std::string_view line) { return take_line(line, samples); });
  if (!ok) return ok.error();
  return samples;
}

}  // namespace grapevine
