#include "models/files/file.hpp"

#include <fmt/core.h>
#include "models/data/readers.hpp"

namespace grapevine {
namespace {

constexpr uint32_t kImagesMagic = 2051;
constexpr uint32_t kLabelsMagic = 2049;
constexpr uint32_t kMaxSide = 1024;  // so that the product of a damaged header does not overflow

uint32_t big_endian(const Bytes& bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) << 24 | static_cast<uint32_t>(bytes[at + 1]) << 16 |
         static_cast<uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

Status check_header(const std::string& path, const Bytes& bytes, size_t header_bytes,
                    uint32_t magic, const char* kind) {
  if (bytes.size() < header_bytes) {
    return world_error(fmt::format("{} is cut: {} bytes, an IDX header has {}", path,
                                   with_commas(bytes.size()), header_bytes));
  }
  if (const uint32_t found = big_endian(bytes, 0); found != magic) {
    return world_error(fmt::format("{} is no IDX file of {}: its magic number is {}, accepted: {}",
                                   path, kind, found, magic));
  }
  return Done{};
}

Status check_size(const std::string& path, size_t found, size_t expected) {
  if (found == expected) return Done{};
  return world_error(fmt::format("{}{}{} bytes, its header announces {}", path,
                                 found < expected ? " is cut: " : " is too long: ",
                                 with_commas(found), with_commas(expected)));
}

}  // namespace

Result<Samples> read_idx(const std::string& images_path, const std::string& labels_path,
                         int classes) {
  Result<Bytes> images = read_whole_file(images_path);
  if (!images) return images.error();
  if (const Status ok = check_header(images_path, *images, 16, kImagesMagic, "images"); !ok) {
    return ok.error();
  }
  const uint32_t count = big_endian(*images, 4);
  const uint32_t rows = big_endian(*images, 8);
  const uint32_t columns = big_endian(*images, 12);
  if (rows == 0 || columns == 0 || rows > kMaxSide || columns > kMaxSide) {
    return world_error(fmt::format("{} is damaged: its images are {} x {}, accepted: 1 to {}",
                                   images_path, rows, columns, kMaxSide));
  }
  const size_t pixels = static_cast<size_t>(count) * rows * columns;
  if (const Status ok = check_size(images_path, images->size(), 16 + pixels); !ok) {
    return ok.error();
  }

  Result<Bytes> labels = read_whole_file(labels_path);
  if (!labels) return labels.error();
  if (const Status ok = check_header(labels_path, *labels, 8, kLabelsMagic, "labels"); !ok) {
    return ok.error();
  }
  const uint32_t label_count = big_endian(*labels, 4);
  if (const Status ok = check_size(labels_path, labels->size(), size_t{8} + label_count); !ok) {
    return ok.error();
  }
  if (label_count != count || count == 0) {
    return world_error(
        fmt::format("{} has {} labels, {} has {} images, accepted: as many, and at least 1",
                    labels_path, with_commas(label_count), images_path, with_commas(count)));
  }

  Samples samples;
  samples.shape = {1, static_cast<int>(rows), static_cast<int>(columns), true};
  images->erase(images->begin(), images->begin() + 16);
  samples.pixels = std::move(*images);
  samples.labels.assign(labels->begin() + 8, labels->end());
  for (size_t i = 0; i < count; ++i) {
    if (samples.labels[i] >= classes) {
      return world_error(fmt::format("{} is damaged: label {} is {}, accepted: 0 to {}",
                                     labels_path, with_commas(i), samples.labels[i], classes - 1));
    }
  }
  return samples;
}

}  // namespace grapevine
