// Files that appear whole or not at all.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/result.hpp"

namespace grapevine {

struct Piece {
  const void* data = nullptr;
  size_t bytes = 0;
};

/// Writes the pieces one after the other to `path`.part, flushes that to the disk and renames it.
/// Errors (world): the path and what the system says, a full disk for instance; the .part file is
/// removed and an older file kept.
Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces);

}  // namespace grapevine
