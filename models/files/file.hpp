// The user's files: opened for reading, read whole or in part, and unpacked while reading.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

/// A regular file, open for reading.
class InputFile {
 public:
  /// Errors (world): it cannot be opened, or is a folder, a device or a pipe.
  static Result<InputFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  int fd() const { return file_.fd(); }

  /// Reads `count` bytes from `at` on. Errors (world): the file ends before, or cannot be read.
  Status read(uint64_t at, void* to, size_t count) const;
  /// The first bytes, at most `at_most`; fewer if the file is shorter.
  Result<Bytes> begin(size_t at_most) const;

 private:
  InputFile(std::string path, Descriptor file, uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::string path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// Whether this number of further bytes fits into the free memory. Error (world): the bytes needed
/// and left, a sentence without its subject.
Status fits_in_memory(uint64_t bytes);

/// Reads a file's content from its beginning. The first bytes, not the name, show whether it is
/// gzip or xz, which are unpacked.
class ContentReader {
 public:
  static Result<ContentReader> open(const std::string& path);
  ContentReader(ContentReader&&) noexcept;
  ~ContentReader();

  /// The next bytes, as many as `to` takes; fewer only at the end. Errors (world): the packed
  /// stream is cut or damaged, or the file cannot be read.
  Result<size_t> read(std::span<uint8_t> to);

 private:
  class Stream;
  class Plain;
  class Gzip;
  class Xz;
  explicit ContentReader(std::unique_ptr<Stream>);

  std::unique_ptr<Stream> stream_;
};

/// The file's content. Errors (world): ContentReader's, or it holds more than `limit_bytes`.
Result<Bytes> read_whole_file(const std::string& path, size_t limit_bytes = size_t{1} << 30);

/// `folder`/`name`, or the same with .gz or .xz: the first that exists; empty: none does.
std::string find_packed(const std::string& folder, const std::string& name);

/// 1234567 becomes "1,234,567".
std::string with_commas(size_t value);

}  // namespace grapevine
