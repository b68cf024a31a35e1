#include "models/files/zip.hpp"

#include <zlib.h>

#include <algorithm>

namespace grapevine {
namespace {

constexpr size_t kDeflateAtMost = 1040;  // times as long: what deflate can reach

/// Where the central directory says that it is; nothing: there is none.
std::optional<Fields> directory_of(ByteView file, uint64_t& entries) {
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
void widen(ZipEntry& entry, ByteView extra) {
  Fields fields(extra);
  while (fields.good()) {
    const uint64_t id = fields.number(2);
    const ByteView part = fields.take(fields.number(2));
    if (!fields.good() || id != 1) continue;
    Fields wide(part);
    for (uint64_t* value : {&entry.size, &entry.packed, &entry.header_at})
      if (*value == 0xffffffff) *value = wide.number(8);
    return;
  }
}

std::optional<ZipEntry> read_entry(Fields& fields) {
  if (fields.number(4) != 0x02014b50) return std::nullopt;
  ZipEntry entry;
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
  const ByteView name = fields.take(name_bytes), extra = fields.take(extra_bytes);
  fields.take(comment_bytes);
  if (!fields.good()) return std::nullopt;
  entry.name.assign(name.begin(), name.end());
  widen(entry, extra);
  return entry;
}

std::optional<Bytes> inflated(ByteView packed, size_t size) {
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

}  // namespace

std::optional<std::vector<ZipEntry>> zip_entries(ByteView file, size_t at_most) {
  uint64_t count = 0;
  auto directory = directory_of(file, count);
  if (!directory || count > at_most) return std::nullopt;
  std::vector<ZipEntry> entries;
  for (uint64_t k = 0; k < count; ++k) {
    auto entry = read_entry(*directory);
    if (!entry) return std::nullopt;
    entries.push_back(std::move(*entry));
  }
  return entries;
}

std::optional<Bytes> bytes_of(ByteView file, const ZipEntry& entry) {
  Fields local(file, entry.header_at);
  if (local.number(4) != 0x04034b50) return std::nullopt;
  local.take(22);
  const size_t name_bytes = local.number(2), extra_bytes = local.number(2);
  local.take(name_bytes), local.take(extra_bytes);
  const ByteView packed = local.take(entry.packed);
  if (!local.good()) return std::nullopt;
  std::optional<Bytes> bytes;
  if (entry.method == 0 && entry.packed == entry.size) bytes.emplace(packed.begin(), packed.end());
  if (entry.method == 8) bytes = inflated(packed, entry.size);
  if (bytes && crc32_z(0, bytes->data(), bytes->size()) != entry.crc) return std::nullopt;
  return bytes;
}

}  // namespace grapevine
