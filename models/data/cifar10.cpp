#include "models/files/file.hpp"

#include <fmt/core.h>
#include "models/data/readers.hpp"

namespace grapevine {
namespace {

constexpr size_t kPixels = 3 * 32 * 32;
constexpr size_t kRecordBytes = 1 + kPixels;
constexpr int kClasses = 10;

}  // namespace

Result<Samples> read_cifar10(const std::vector<std::string>& paths, size_t records_per_file) {
  Samples samples;
  samples.shape = {3, 32, 32, true};
  samples.pixels.reserve(paths.size() * records_per_file * kPixels);
  for (const std::string& path : paths) {
    const Result<Bytes> bytes = read_whole_file(path);
    if (!bytes) return bytes.error();
    const size_t expected = records_per_file * kRecordBytes;
    if (bytes->size() != expected) {
      return world_error(fmt::format(
          "{}{}{} bytes, a CIFAR-10 file of {} records has {}", path,
          bytes->size() < expected ? " is cut: " : " is too long: ", with_commas(bytes->size()),
          with_commas(records_per_file), with_commas(expected)));
    }
    for (size_t record = 0; record < records_per_file; ++record) {
      const uint8_t* at = bytes->data() + record * kRecordBytes;
      if (*at >= kClasses) {
        return world_error(
            fmt::format("{} is damaged: the label of record {} is {}, accepted: 0 to 9", path,
                        with_commas(record), *at));
      }
      samples.labels.push_back(*at);
      samples.pixels.insert(samples.pixels.end(), at + 1, at + kRecordBytes);
    }
  }
  return samples;
}

}  // namespace grapevine
