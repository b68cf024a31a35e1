// GrowingFile: a file to which records are added during a run. If a record cannot be written whole
// (a full disk), it is left out, so that a reader never finds half of one.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

class GrowingFile {
 public:
  /// Error (world): the system's, also if the file exists.
  static Result<GrowingFile> make(const std::string& path);

  /// The same, after the existing records.
  static Result<GrowingFile> go_on(const std::string& path);

  /// Writes at once. A record that cannot be written is left out, and the next one is tried again.
  /// Error (world): the first one that is left out after a written one.
  Status append(const std::string& record);

  const std::string& path() const { return path_; }
  int descriptor() const { return fileno(file_.get()); }
  uint64_t missing() const { return missing_; }            // records
  const std::string& failure() const { return failure_; }  // the last one

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  static Result<GrowingFile> open(const std::string& path, const char* mode);
  GrowingFile(std::string path, File file, long written)
      : path_(std::move(path)), file_(std::move(file)), written_(written) {}

  std::string path_;
  File file_;
  long written_;  // bytes of whole records
  uint64_t missing_ = 0;
  bool failing_ = false;
  std::string failure_;
};

}  // namespace grapevine
