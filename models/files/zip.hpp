// Zip: the records of an archive in memory, stored or deflated, of any size (zip64).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/files/file.hpp"

namespace grapevine {

using ByteView = std::span<const uint8_t>;

/// Little-endian fields of a record; good() is false from the first that is not there.
class Fields {
 public:
  explicit Fields(ByteView bytes, size_t at = 0) : bytes_(bytes), at_(at) {}

  bool good() const { return good_; }
  uint64_t number(size_t size) {
    const ByteView field = take(size);
    uint64_t value = 0;
    for (size_t k = 0; k < field.size(); ++k)
      value |= uint64_t{field[k]} << 8 * k;
    return value;
  }
  ByteView take(size_t size) {
    if (!good_ || at_ > bytes_.size() || size > bytes_.size() - at_)
      return good_ = false, ByteView{};
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

 private:
  ByteView bytes_;
  size_t at_;
  bool good_ = true;
};

struct ZipEntry {
  std::string name;
  uint64_t method = 0, crc = 0, packed = 0, size = 0, header_at = 0;
};

/// As the central directory has them; nothing: there is none, it is damaged, or has more than so
/// many. No size is believed yet.
std::optional<std::vector<ZipEntry>> zip_entries(ByteView file, size_t at_most);

/// The bytes of an entry, unpacked and summed; nothing: they are not what was announced.
std::optional<Bytes> bytes_of(ByteView file, const ZipEntry&);

}  // namespace grapevine
