// DiskEffect: one operation on a disk. The writer of checkpoints chooses the order of the
// operations. A disk carries them out: the real one (real_disk.hpp), or the tests' disk, which
// loses data that are not synced.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/write_file.hpp"

namespace grapevine {

struct MakeFolder {
  std::string path;
};  // no effect if it exists
struct WriteFile {
  std::string path;
  std::string head;                   // the first bytes
  std::vector<Piece> pieces;          // the bytes after them
  std::shared_ptr<const void> owner;  // keeps the pieces alive
};  // creates or replaces the file; no part stays in the process's buffers
struct SyncFile {
  std::string path;
};
struct Rename {
  std::string from, to;  // replaces an existing file
};
struct SyncFolder {
  std::string path;
};
struct RemoveFile {
  std::string path;
};  // no effect if it does not exist
struct RemoveFolder {
  std::string path;
};  // with its contents; no effect if it does not exist

using DiskEffect =
    std::variant<MakeFolder, WriteFile, SyncFile, Rename, SyncFolder, RemoveFile, RemoveFolder>;
using DiskEffects = std::vector<DiskEffect>;

}  // namespace grapevine
