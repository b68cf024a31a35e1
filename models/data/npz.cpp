#include "models/data/npz.hpp"

#include <fmt/core.h>

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/base/spec.hpp"
#include "models/data/text.hpp"
#include "models/files/zip.hpp"

namespace grapevine {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 30;
constexpr size_t kMostEntries = 4096, kMostDimensions = 32;

/// The text behind 'KEY': up to the end.
std::string_view behind(std::string_view header, const std::string& key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == header.npos) return {};
  std::string_view rest = header.substr(at + key.size() + 3);
  while (rest.starts_with(' '))
    rest.remove_prefix(1);
  return rest;
}

/// "(3, 4)", "(3,)" or "()"; nothing: it is none of them.
std::optional<std::vector<int64_t>> shape_of(std::string_view text) {
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == text.npos) return std::nullopt;
  std::vector<int64_t> shape;
  std::string_view inside = text.substr(1, end - 1);
  if (inside.ends_with(',')) inside.remove_suffix(1);
  if (inside.empty()) return shape;
  for (std::string_view part : split(inside, ',')) {
    while (part.starts_with(' '))
      part.remove_prefix(1);
    const auto side = number_of<int64_t>(part);
    if (!side || *side < 0 || shape.size() == kMostDimensions) return std::nullopt;
    shape.push_back(*side);
  }
  return shape;
}

template <class From, class To>
void convert(ByteView from, Bytes& to) {
  const size_t count = from.size() / sizeof(From);
  to.resize(count * sizeof(To));
  for (size_t k = 0; k < count; ++k) {
    From value;
    std::memcpy(&value, from.data() + k * sizeof(From), sizeof(From));
    const To wide = static_cast<To>(value);
    std::memcpy(to.data() + k * sizeof(To), &wide, sizeof(To));
  }
}

struct Kind {
  std::string_view name;
  size_t bytes;
  TensorType type;
  void (*convert)(ByteView, Bytes&);
};

constexpr Kind kKinds[] = {
    {"<f4", 4, TensorType::f32, convert<float, float>},
    {"<f8", 8, TensorType::f64, convert<double, double>},
    {"|b1", 1, TensorType::i64, convert<uint8_t, int64_t>},
    {"|u1", 1, TensorType::i64, convert<uint8_t, int64_t>},
    {"|i1", 1, TensorType::i64, convert<int8_t, int64_t>},
    {"<u2", 2, TensorType::i64, convert<uint16_t, int64_t>},
    {"<i2", 2, TensorType::i64, convert<int16_t, int64_t>},
    {"<u4", 4, TensorType::i64, convert<uint32_t, int64_t>},
    {"<i4", 4, TensorType::i64, convert<int32_t, int64_t>},
    {"<i8", 8, TensorType::i64, convert<int64_t, int64_t>},
};

Result<StoredTensor> read_npy(const std::string& name, ByteView bytes) {
  const auto damaged = [&] { return world_error(fmt::format("array {} is cut or damaged", name)); };
  Fields fields(bytes);
  const ByteView magic = fields.take(6);
  if (!fields.good() || std::memcmp(magic.data(), "\x93NUMPY", 6) != 0) return damaged();
  const uint64_t major = fields.number(1);
  fields.number(1);
  const ByteView header = fields.take(fields.number(major == 1 ? 2 : 4));
  if (!fields.good()) return damaged();
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  const std::string_view descr = behind(text, "descr");
  const auto shape = shape_of(behind(text, "shape"));
  if (!shape || descr.size() < 2) return damaged();
  const std::string_view type = descr.substr(1, descr.find('\'', 1) - 1);
  for (const Kind& kind : kKinds) {
    if (kind.name != type) continue;
    if (!behind(text, "fortran_order").starts_with("False") && shape->size() > 1)
      return world_error(fmt::format("array {} is in Fortran's order, accepted: C's", name));
    size_t count = 1;
    for (const int64_t side : *shape) {
      if (side > 0 && count > bytes.size() / static_cast<uint64_t>(side)) return damaged();
      count *= static_cast<size_t>(side);
    }
    const ByteView data = fields.take(count * kind.bytes);
    if (!fields.good()) return damaged();
    StoredTensor tensor{name, *shape, kind.type, {}};
    kind.convert(data, tensor.bytes);
    return tensor;
  }
  return world_error(
      fmt::format("array {} is of type {}, accepted: floats of 4 or 8 bytes, whole numbers, "
                  "booleans, little-endian",
                  name, quoted(type)));
}

}  // namespace

Result<std::vector<StoredTensor>> read_npz(const std::string& path) {
  const Result<Bytes> file = read_whole_file(path, kMaxFileBytes);
  if (!file) return file.error();
  const auto damaged = [&](const std::string& where) {
    return world_error(fmt::format("{} is cut or damaged, or no .npz file{}", path, where));
  };
  const auto entries = zip_entries(*file, kMostEntries);
  if (!entries) return damaged("");
  std::vector<StoredTensor> tensors;
  for (const ZipEntry& entry : *entries) {
    const auto bytes = bytes_of(*file, entry);
    if (!bytes) return damaged(", at " + quoted(entry.name));
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    auto tensor = read_npy(name, *bytes);
    if (!tensor) return world_error(fmt::format("{}: {}", path, tensor.error().message));
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

}  // namespace grapevine
