#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "models/data/readers.hpp"
#include "models/data/text.hpp"

namespace grapevine {
namespace {

constexpr size_t kMaxDenseBytes = size_t{1} << 30;

std::string_view next_word(std::string_view& line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return line = {};
  line.remove_prefix(first);
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

template <class Number>
bool parsed(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Status take_line(std::string_view line, int features, Samples& samples) {
  const std::string_view label = next_word(line);
  if (label != "+1" && label != "1" && label != "-1") {
    return world_error(fmt::format("the label is {}, accepted: +1, -1", excerpt(label)));
  }
  if ((samples.features.size() + static_cast<size_t>(features)) * sizeof(float) > kMaxDenseBytes) {
    return world_error(fmt::format("the dense rows so far fill the {} bytes that are accepted",
                                   with_commas(kMaxDenseBytes)));
  }
  samples.labels.push_back(label != "-1");
  samples.features.resize(samples.features.size() + static_cast<size_t>(features), 0.0f);
  float* row = samples.features.data() + samples.features.size() - features;
  int previous = 0;
  for (std::string_view pair = next_word(line); !pair.empty(); pair = next_word(line)) {
    const size_t colon = pair.find(':');
    int index = 0;
    float value = 0;
    if (colon == std::string_view::npos || !parsed(pair.substr(0, colon), index) ||
        !parsed(pair.substr(colon + 1), value) || !std::isfinite(value)) {
      return world_error(fmt::format("found {}, accepted: index:value", excerpt(pair)));
    }
    if (index <= previous || index > features) {
      return world_error(
          fmt::format("index {} follows {}, accepted: rising, 1 to {}", index, previous, features));
    }
    row[index - 1] = value;
    previous = index;
  }
  return Done{};
}

}  // namespace

Result<Samples> read_libsvm(const std::string& path, int features) {
  const Result<Bytes> bytes = read_whole_file(path);
  if (!bytes) return bytes.error();
  Samples samples;
  samples.shape = {features, 1, 1, false};
  const Status ok = for_each_line(path, *bytes, [&samples, features](std::string_view line) {
    return take_line(line, features, samples);
  });
  if (!ok) return ok.error();
  return samples;
}

}  // namespace grapevine
