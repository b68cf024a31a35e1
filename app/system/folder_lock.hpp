// FolderLock: while it is held, no other process uses the folder. A lock of the system (flock),
// which ends with the process, however that ends; programs that the process starts do not inherit
// it. A file system without such locks (Lustre, some of FUSE's) keeps no process out, and warning()
// says so.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

class FolderLock {
 public:
  /// No value: another process has had the lock for this time (a process that was just killed, or
  /// whose parent was, takes a moment to end). Error (world): there is no such folder.
  static Result<std::optional<FolderLock>> take(const std::string& folder, double patience_s = 0);

  /// Empty; or a line for the user, if the system keeps no other process out.
  const std::string& warning() const { return warning_; }

 private:
  explicit FolderLock(Descriptor folder) : folder_(std::move(folder)) {}
  Descriptor folder_;
  std::string warning_;
};

}  // namespace grapevine
