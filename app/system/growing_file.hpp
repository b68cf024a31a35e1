// GrowingFile: records that are added to a file while a run goes on. One that cannot be written
// whole (a full disk) is left out, so that a reader never meets half of one.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

class GrowingFile {
 public:
  /// Error (world): what the system says, also where there is a file of that name.
  static Result<GrowingFile> make(const std::string& path);

  /// The same, behind what is there.
  static Result<GrowingFile> go_on(const std::string& path);

  /// At once. A record that cannot be written is left out, and the next one is tried again. Error
  /// (world): the first that is left out after one that was not.
  Status append(const std::string& record);

  const std::string& path() const { return path_; }
  int descriptor() const { return fileno(file_.get()); }
  uint64_t missing() const { return missing_; }            // records
  const std::string& failure() const { return failure_; }  // the last

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
  long written_;  // bytes, of whole records
  uint64_t missing_ = 0;
  bool failing_ = false;
  std::string failure_;
};

}  // namespace grapevine
