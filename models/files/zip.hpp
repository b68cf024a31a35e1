// Zip: reads the records of an archive on the disk, of any size, stored or packed (libzip).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/files/file.hpp"

struct zip;

namespace grapevine {

struct ZipEntry {
  std::string name;
  uint64_t index = 0;
  uint64_t size = 0;  // unpacked; checked against its packed size
};

class Zip {
 public:
  /// Errors (world), also those of read(): sentences without their subject.
  static Result<Zip> open(const InputFile&);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(const std::string& name) const;  // null: there is none

  /// `count` bytes from `first` on. The checksum is verified for a whole record. Errors: the bytes
  /// are missing or differ from what the archive announces, or the memory is too small for them.
  Result<Bytes> read(const ZipEntry&, uint64_t first, uint64_t count) const;
  Result<Bytes> read(const ZipEntry& entry) const { return read(entry, 0, entry.size); }

 private:
  struct Close {
    void operator()(zip* archive) const;
  };

  std::unique_ptr<zip, Close> archive_;
  std::vector<ZipEntry> entries_;
};

}  // namespace grapevine
