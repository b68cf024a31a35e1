#include "kernels/write_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace grapevine {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

bool write_all(int file, const Piece& piece) {
  const char* at = static_cast<const char*>(piece.data);
  for (size_t left = piece.bytes; left > 0;) {
    const ssize_t wrote = ::write(file, at, left);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    at += wrote;
    left -= static_cast<size_t>(wrote);
  }
  return true;
}

Error in_words(const std::string& path, int error) {
  const auto kind = error == EEXIST ? Error::Kind::user : Error::Kind::world;
  return Error{kind, fmt::format("cannot write {}: {}", path, std::strerror(error))};
}

// A file system that cannot flush a folder says EINVAL.
bool flush_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const Descriptor folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder >= 0 && (::fsync(folder) == 0 || errno == EINVAL);
}

bool name_it(const std::string& part, const std::string& path, bool replaces) {
  const unsigned flags = replaces ? 0 : RENAME_NOREPLACE;
  return ::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, path.c_str(), flags) == 0;
}

}  // namespace

Status finish_file(int file, const std::string& part, const std::string& path, bool replaces) {
  const bool named = ::fsync(file) == 0 && name_it(part, path, replaces);
  if (named && flush_folder_of(path)) return Done{};
  const int error = errno;
  if (!named) ::unlink(part.c_str());
  return in_words(path, error);
}

Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces,
                        FileSettings settings) {
  static std::atomic<unsigned> count{0};
  const std::string part = fmt::format("{}.{}-{}.part", path, ::getpid(), count++);
  const Descriptor file(
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, settings.mode));
  if (file < 0) return in_words(path, errno);
  for (const Piece& piece : pieces) {
    if (write_all(file, piece)) continue;
    const int error = errno;
    ::unlink(part.c_str());
    return in_words(path, error);
  }
  return finish_file(file, part, path, settings.replaces);
}

}  // namespace grapevine
