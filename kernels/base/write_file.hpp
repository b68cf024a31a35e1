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

/// Writes the pieces one after the other to a new file beside `path` with a unique name (O_EXCL, so
/// that it follows no link), flushes it to the disk, renames it and flushes the folder. Errors: the
/// path and the system's message, a full disk for instance (world), or that the file exists and
/// must not be replaced (user). After an error the new file is removed and an older file is kept.
Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces,
                        FileSettings = {});

/// The same end for a file that grew under another name: flushes `file`, names it `path`, flushes
/// the folder. The descriptor stays the caller's. On an error `part` is removed.
Status finish_file(int file, const std::string& part, const std::string& path,
                   bool replaces = true);

}  // namespace grapevine
