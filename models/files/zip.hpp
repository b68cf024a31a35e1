// Zip: the records of an archive on the disk, of any size, stored or packed (libzip).
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
  uint64_t size = 0;  // unpacked: no more than its packed bytes can hold
};

class Zip {
 public:
  /// Errors (world), as of read(): sentences without their subject.
  static Result<Zip> open(const InputFile&);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(const std::string& name) const;  // null: there is none

  /// `count` bytes from `first` on; those of a whole record are summed. Errors: they are not there
  /// or not what was announced, or there is not memory enough for them.
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
