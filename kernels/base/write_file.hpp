// Writes files that appear complete or not at all. All code of the project writes files this way.
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
  bool replaces = true;  // false: an older file is an error and is kept
  unsigned mode = 0644;
};

/// Writes the pieces in order to a new file beside `path` with a unique name (O_EXCL, so it follows
/// no link), flushes it to the disk, renames it and flushes the folder. Errors: the path and the
/// system's message, such as a full disk (world); the file exists and must not be replaced, or is a
/// device, a pipe or a socket (user).
/// After an error the new file is removed and an older file is kept.
Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces,
                        FileSettings = {});

/// The last steps for a file written under another name: flushes `file`, renames `part` to `path`,
/// flushes the folder. The caller still owns the descriptor. On an error `part` is removed.
Status finish_file(int file, const std::string& part, const std::string& path,
                   bool replaces = true);

}  // namespace grapevine
