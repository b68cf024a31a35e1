// NumPy's .npz: a zip of .npy files. The header of each is the text of a Python dict.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "kernels/base/printable.hpp"
#include "kernels/base/spec.hpp"
#include "models/files/tensor_file.hpp"
#include "models/files/zip.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostHeaderBytes = size_t{1} << 20, kMostDimensions = 32;
constexpr std::string_view kMagic = "\x93NUMPY";

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' '))
    text.remove_prefix(1);
  return text;
}

/// The text after a key, up to the end. The kind of quotes depends on the program that wrote the
/// file.
std::string_view behind(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const size_t at = header.find(fmt::format("{}{}{}", quote, key, quote));
    if (at == header.npos) continue;
    const std::string_view rest = without_spaces(header.substr(at + key.size() + 2));
    return rest.starts_with(':') ? without_spaces(rest.substr(1)) : std::string_view();
  }
  return {};
}

/// "(3, 4)", "(3,)" or "()"; Python 2 wrote "(3L, 4L)". Empty: it is none of these.
std::optional<std::vector<int64_t>> shape_of(std::string_view text) {
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == text.npos) return std::nullopt;
  std::vector<int64_t> shape;
  for (std::string_view part : split(text.substr(1, end - 1), ',')) {
    part = without_spaces(part);
    if (part.ends_with('L')) part.remove_suffix(1);
    if (part.empty()) continue;
    const auto side = number_of<int64_t>(part);
    if (!side || *side < 0 || shape.size() == kMostDimensions) return std::nullopt;
    shape.push_back(*side);
  }
  return shape;
}

struct Header {
  std::string type_name;  // "<f4"
  TensorType type = TensorType::other;
  bool is_swapped = false, is_by_columns = false;
  std::vector<int64_t> shape;
  size_t data_at = 0;

  /// The size of the data; empty: more than the `there` bytes that exist.
  std::optional<size_t> data_bytes(size_t there) const {
    if (std::count(shape.begin(), shape.end(), 0) > 0) return 0;
    size_t bytes = size_of(type);
    for (const int64_t side : shape) {
      if (bytes > there / static_cast<uint64_t>(side)) return std::nullopt;
      bytes *= static_cast<uint64_t>(side);
    }
    return bytes;
  }
};

/// "<f4", ">i8", "|u1": byte order, kind, bytes.
void set_type(Header& header, std::string_view descr) {
  const bool is_quoted = descr.starts_with('\'') || descr.starts_with('"');
  const std::string_view name =
      is_quoted ? descr.substr(1, descr.find(descr[0], 1) - 1) : descr.substr(0, descr.find('\n'));
  header.type_name = name;
  if (!is_quoted || name.empty()) return;
  const bool has_order = std::string_view("<>|=").find(name[0]) != std::string_view::npos;
  for (const TensorTypeNames& known : tensor_types())
    if (*known.in_numpy != '\0' && name.substr(has_order) == known.in_numpy)
      header.type = known.type;
  header.is_swapped = name[0] == '>' && size_of(header.type) > 1;
}

std::optional<Header> header_of(ByteView npy) {
  constexpr size_t kFixed = 10;  // magic, version, a length of two bytes (four since version 2)
  if (npy.size() < kFixed || std::memcmp(npy.data(), kMagic.data(), kMagic.size()) != 0)
    return std::nullopt;
  const bool is_first = npy[kMagic.size()] == 1;
  const size_t text_at = is_first ? kFixed : kFixed + 2;
  if (npy.size() < text_at) return std::nullopt;
  size_t length = npy[8] | size_t{npy[9]} << 8;
  if (!is_first) length |= size_t{npy[10]} << 16 | size_t{npy[11]} << 24;
  if (length > npy.size() - text_at) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(npy.data()) + text_at, length);
  Header header;
  const auto shape = shape_of(behind(text, "shape"));
  const std::string_view descr = behind(text, "descr"), order = behind(text, "fortran_order");
  if (!shape || descr.empty() || order.empty()) return std::nullopt;
  set_type(header, descr);
  header.shape = *shape;
  header.is_by_columns = order.starts_with("True") && shape->size() > 1;
  header.data_at = text_at + length;
  return header;
}

void swap_bytes(Bytes& bytes, size_t width) {
  for (size_t k = 0; k + width <= bytes.size(); k += width)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(k),
                 bytes.begin() + static_cast<std::ptrdiff_t>(k + width));
}

/// From Fortran's order (the first index changes fastest) to C's.
Bytes by_rows(const Bytes& columns, const std::vector<int64_t>& shape, size_t width) {
  Bytes rows(columns.size());
  std::vector<size_t> index(shape.size(), 0), steps(shape.size(), width);
  for (size_t d = 1; d < shape.size(); ++d)
    steps[d] = steps[d - 1] * static_cast<size_t>(shape[d - 1]);
  size_t from = 0;
  for (size_t to = 0; to < rows.size(); to += width) {
    std::memcpy(rows.data() + to, columns.data() + from, width);
    for (size_t d = shape.size(); d-- > 0;) {
      from += steps[d];
      if (++index[d] < static_cast<size_t>(shape[d])) break;
      from -= steps[d] * index[d];
      index[d] = 0;
    }
  }
  return rows;
}

class NpzReader final : public TensorReader {
 public:
  explicit NpzReader(Zip archive) : archive_(std::move(archive)) {}

  Result<StoredTensor> read(const TensorInfo& info) const override {
    const ZipEntry& entry = archive_.entries()[info.place];
    const auto refused = [&](const std::string& why) {
      return world_error(fmt::format("array {} {}", info.name, why));
    };
    const auto begin = archive_.read(entry, 0, std::min<uint64_t>(entry.size, kMostHeaderBytes));
    if (!begin) return refused(begin.error().message);
    const auto header = header_of(*begin);
    if (!header) return refused("is cut or damaged");
    if (header->type == TensorType::other)
      return refused(fmt::format("is of type {}, accepted: floats, whole numbers and booleans",
                                 "\"" + printable(header->type_name) + "\""));
    const auto size = header->data_bytes(entry.size - header->data_at);
    if (!size) return refused("is cut or damaged");
    auto bytes = archive_.read(entry);
    if (!bytes) return refused(bytes.error().message);
    const auto data = bytes->begin() + static_cast<std::ptrdiff_t>(header->data_at);
    bytes->erase(bytes->begin(), data);
    bytes->resize(*size);
    const size_t width = size_of(header->type);
    if (header->is_swapped) swap_bytes(*bytes, width);
    if (header->is_by_columns) *bytes = by_rows(*bytes, header->shape, width);
    return StoredTensor{info.name, header->shape, header->type, std::move(*bytes)};
  }

 private:
  const Zip archive_;
};

}  // namespace

Result<TensorFile> open_npz(InputFile file) {
  auto archive = Zip::open(file);
  if (!archive) return world_error(fmt::format("{} {}", file.path(), archive.error().message));
  std::vector<TensorInfo> tensors;
  for (const ZipEntry& entry : archive->entries()) {
    std::string name = entry.name;
    if (!name.ends_with(".npy")) continue;
    name.resize(name.size() - 4);
    tensors.push_back({.name = std::move(name), .place = entry.index});
  }
  return TensorFile(file.path(), std::move(tensors),
                    std::make_unique<NpzReader>(std::move(*archive)));
}

}  // namespace grapevine
