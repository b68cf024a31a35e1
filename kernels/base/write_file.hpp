// Files that appear whole or not at all: the one way in which anything of ours writes a file.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

struct Piece {
  const void* data = nullptr;
  size_t bytes = 0;
};

struct FileSettings {
  bool replaces = true;  // an older file of that name; else it is kept, and an error
  unsigned mode = 0644;
};

/// Writes the pieces one after the other to a new file beside `path` whose name nobody else has
/// (O_EXCL, so that no link laid there is followed), flushes it to the disk, gives it its name and
/// flushes the folder. Errors: the path and what the system says, a full disk for instance (world),
/// or that the file exists and is not to be replaced (user); what was written is removed and an
/// older file kept.
Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces,
                        FileSettings = {});

/// The same end for a file that grew under another name: flushes `file`, names it `path`, flushes
/// the folder. The descriptor stays the caller's. On an error `part` is removed.
Status finish_file(int file, const std::string& part, const std::string& path,
                   bool replaces = true);

}  // namespace grapevine
