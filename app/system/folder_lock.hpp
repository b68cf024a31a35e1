// FolderLock: while it is held no other process works in that folder. A lock of the system (flock),
// which ends with the process, however that ends; no program that it starts inherits it. A file
// system without such locks (Lustre, some of FUSE's) keeps nobody out, and says so.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

class FolderLock {
 public:
  /// Nothing where another process has it for so long: one that was just killed, or whose parent
  /// was, takes a moment to be gone. Error (world): no such folder.
  static Result<std::optional<FolderLock>> take(const std::string& folder, double patience_s = 0);

  /// Empty; or a line for the user, where the system keeps nobody out.
  const std::string& warning() const { return warning_; }

 private:
  explicit FolderLock(Descriptor folder) : folder_(std::move(folder)) {}
  Descriptor folder_;
  std::string warning_;
};

}  // namespace grapevine
