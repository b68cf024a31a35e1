#include "models/data/npz.hpp"

#include <zlib.h>

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/spec.hpp"
#include "models/data/text.hpp"

namespace grapevine {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 30;
constexpr size_t kMostEntries = 4096, kMostDimensions = 32;
constexpr size_t kDeflateAtMost = 1040;  // times as long: what deflate can reach

using View = std::span<const uint8_t>;

/// Little-endian fields of a record; good() is false from the first that is not there.
class Fields {
 public:
  explicit Fields(View bytes, size_t at = 0) : bytes_(bytes), at_(at) {}

  bool good() const { return good_; }
  uint64_t number(size_t size) {
    const View field = take(size);
    uint64_t value = 0;
    for (size_t k = 0; k < field.size(); ++k)
      value |= uint64_t{field[k]} << 8 * k;
    return value;
  }
  View take(size_t size) {
    if (!good_ || at_ > bytes_.size() || size > bytes_.size() - at_) return good_ = false, View{};
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

 private:
  View bytes_;
  size_t at_;
  bool good_ = true;
};

struct Entry {
  std::string name;
  uint64_t method = 0, crc = 0, packed = 0, size = 0, header_at = 0;
};

/// Where the central directory says that it is; nothing: there is none.
std::optional<Fields> directory_of(View file, uint64_t& entries) {
  constexpr size_t kEndBytes = 22, kMostComment = 65535;
  if (file.size() < kEndBytes) return std::nullopt;
  const size_t last = file.size() - kEndBytes;
  for (size_t back = 0; back <= std::min(last, kMostComment); ++back) {
    Fields end(file, last - back);
    if (end.number(4) != 0x06054b50) continue;
    end.number(2), end.number(2), end.number(2);
    entries = end.number(2);
    end.number(4);
    return Fields(file, end.number(4));
  }
  return std::nullopt;
}

/// What a field of the directory does not hold stands in its extra part (zip64), in this order.
void widen(Entry& entry, View extra) {
  Fields fields(extra);
  while (fields.good()) {
    const uint64_t id = fields.number(2);
    const View part = fields.take(fields.number(2));
    if (!fields.good() || id != 1) continue;
    Fields wide(part);
    for (uint64_t* value : {&entry.size, &entry.packed, &entry.header_at})
      if (*value == 0xffffffff) *value = wide.number(8);
    return;
  }
}

std::optional<Entry> read_entry(Fields& fields) {
  if (fields.number(4) != 0x02014b50) return std::nullopt;
  Entry entry;
  fields.number(4), fields.number(2);
  entry.method = fields.number(2);
  fields.number(4);
  entry.crc = fields.number(4);
  entry.packed = fields.number(4);
  entry.size = fields.number(4);
  const size_t name_bytes = fields.number(2), extra_bytes = fields.number(2);
  const size_t comment_bytes = fields.number(2);
  fields.number(4), fields.number(4);
  entry.header_at = fields.number(4);
  const View name = fields.take(name_bytes), extra = fields.take(extra_bytes);
  fields.take(comment_bytes);
  if (!fields.good()) return std::nullopt;
  entry.name.assign(name.begin(), name.end());
  widen(entry, extra);
  return entry;
}

std::optional<Bytes> inflated(View packed, size_t size) {
  if (size / kDeflateAtMost > packed.size()) return std::nullopt;
  Bytes out(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  size_t in_at = 0, out_at = 0;
  int status = Z_OK;
  constexpr size_t kStep = size_t{1} << 30;  // the stream counts in 32 bits
  while (status == Z_OK) {
    stream.next_in = const_cast<Bytef*>(packed.data() + in_at);
    stream.avail_in = static_cast<uInt>(std::min(kStep, packed.size() - in_at));
    stream.next_out = out.data() + out_at;
    stream.avail_out = static_cast<uInt>(std::min(kStep, size - out_at));
    const size_t in_before = stream.avail_in, out_before = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in_at += in_before - stream.avail_in;
    out_at += out_before - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out_at != size) return std::nullopt;
  return out;
}

/// The bytes of an entry, unpacked and summed; nothing: they are not what was announced.
std::optional<Bytes> bytes_of(View file, const Entry& entry) {
  Fields local(file, entry.header_at);
  if (local.number(4) != 0x04034b50) return std::nullopt;
  local.take(22);
  const size_t name_bytes = local.number(2), extra_bytes = local.number(2);
  local.take(name_bytes), local.take(extra_bytes);
  const View packed = local.take(entry.packed);
  if (!local.good()) return std::nullopt;
  std::optional<Bytes> bytes;
  if (entry.method == 0 && entry.packed == entry.size) bytes.emplace(packed.begin(), packed.end());
  if (entry.method == 8) bytes = inflated(packed, entry.size);
  if (bytes && crc32_z(0, bytes->data(), bytes->size()) != entry.crc) return std::nullopt;
  return bytes;
}

/// The text behind 'KEY': up to the end.
std::string_view behind(std::string_view header, const std::string& key) {
  const size_t at = header.find("'" + key + "':");
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
void convert(View from, Bytes& to) {
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
  void (*convert)(View, Bytes&);
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

Result<StoredTensor> read_npy(const std::string& name, View bytes) {
  const auto damaged = [&] { return world_error("array " + name + " is cut or damaged"); };
  Fields fields(bytes);
  const View magic = fields.take(6);
  if (!fields.good() || std::memcmp(magic.data(), "\x93NUMPY", 6) != 0) return damaged();
  const uint64_t major = fields.number(1);
  fields.number(1);
  const View header = fields.take(fields.number(major == 1 ? 2 : 4));
  if (!fields.good()) return damaged();
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  const std::string_view descr = behind(text, "descr");
  const auto shape = shape_of(behind(text, "shape"));
  if (!shape || descr.size() < 2) return damaged();
  const std::string_view type = descr.substr(1, descr.find('\'', 1) - 1);
  for (const Kind& kind : kKinds) {
    if (kind.name != type) continue;
    if (!behind(text, "fortran_order").starts_with("False") && shape->size() > 1)
      return world_error("array " + name + " is in Fortran's order, accepted: C's");
    size_t count = 1;
    for (const int64_t side : *shape) {
      if (side > 0 && count > bytes.size() / static_cast<uint64_t>(side)) return damaged();
      count *= static_cast<size_t>(side);
    }
    const View data = fields.take(count * kind.bytes);
    if (!fields.good()) return damaged();
    StoredTensor tensor{name, *shape, kind.type, {}};
    kind.convert(data, tensor.bytes);
    return tensor;
  }
  return world_error("array " + name + " is of type " + quoted(type) +
                     ", accepted: floats of 4 or 8 bytes, whole numbers, booleans, little-endian");
}

}  // namespace

Result<std::vector<StoredTensor>> read_npz(const std::string& path) {
  const Result<Bytes> file = read_whole_file(path, kMaxFileBytes);
  if (!file) return file.error();
  const auto damaged = [&](const std::string& where) {
    return world_error(path + " is cut or damaged, or no .npz file" + where);
  };
  uint64_t entries = 0;
  auto directory = directory_of(*file, entries);
  if (!directory || entries > kMostEntries) return damaged("");
  std::vector<StoredTensor> tensors;
  for (uint64_t k = 0; k < entries; ++k) {
    const auto entry = read_entry(*directory);
    if (!entry) return damaged("");
    const auto bytes = bytes_of(*file, *entry);
    if (!bytes) return damaged(", at " + quoted(entry->name));
    std::string name = entry->name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    auto tensor = read_npy(name, *bytes);
    if (!tensor) return world_error(path + ": " + tensor.error().message);
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

}  // namespace grapevine
