// DiskEffect: one operation on a disk. The writer of checkpoints chooses the order of the
// operations. A disk carries them out: the real one (real_disk.hpp), or the disk of the tests,
// which loses unsynced data.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/write_file.hpp"

namespace grapevine {

struct MakeFolder {
  std::string path;
};  // nothing where it is there
struct WriteFile {
  std::string path;
  std::string head;                   // what it begins with
  std::vector<Piece> pieces;          // what follows
  std::shared_ptr<const void> owner;  // of the pieces
};  // new, or in place of what was there; nothing of it is kept back in the process
struct SyncFile {
  std::string path;
};
struct Rename {
  std::string from, to;  // in place of what was there
};
struct SyncFolder {
  std::string path;
};
struct RemoveFile {
  std::string path;
};  // nothing where it is not there
struct RemoveFolder {
  std::string path;
};  // with what is left in it; nothing where it is not there

using DiskEffect =
    std::variant<MakeFolder, WriteFile, SyncFile, Rename, SyncFolder, RemoveFile, RemoveFolder>;
using DiskEffects = std::vector<DiskEffect>;

}  // namespace grapevine
