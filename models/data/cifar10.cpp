#include "models/data/file.hpp"
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
      return world_error(path + (bytes->size() < expected ? " is cut: " : " is too long: ") +
                         with_commas(bytes->size()) + " bytes, a CIFAR-10 file of " +
                         with_commas(records_per_file) + " records has " + with_commas(expected));
    }
    for (size_t record = 0; record < records_per_file; ++record) {
      const uint8_t* at = bytes->data() + record * kRecordBytes;
      if (*at >= kClasses) {
        return world_error(path + " is damaged: the label of record " + with_commas(record) +
                           " is " + std::to_string(*at) + ", accepted: 0 to 9");
      }
      samples.labels.push_back(*at);
      samples.pixels.insert(samples.pixels.end(), at + 1, at + kRecordBytes);
    }
  }
  return samples;
}

}  // namespace grapevine
