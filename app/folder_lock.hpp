// FolderLock: while it is held no other process works in that folder. A lock of the system (flock),
// which ends with the process, however that ends; no program that it starts inherits it.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "kernels/result.hpp"

namespace grapevine {

class FolderLock {
 public:
  /// Nothing where another process has it for so long: one that was just killed, or whose parent
  /// was, takes a moment to be gone. Error (world): no such folder, or it cannot be locked.
  static Result<std::optional<FolderLock>> take(const std::string& folder, double patience_s = 0);
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace grapevine
