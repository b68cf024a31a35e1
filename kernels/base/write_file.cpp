#include "kernels/base/write_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "kernels/base/descriptor.hpp"

namespace grapevine {
namespace {

Error in_words(const std::string& path, int error) {
  if (error == EEXIST)
    return user_error(
        fmt::format("cannot write {}: it exists, accepted: the path of a new file", path));
  return world_error(fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

// A device, a pipe, a socket, or a link to one. A rename would remove it: for root, /dev/null.
bool is_special(const std::string& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

Error is_no_file(const std::string& path) {
  return user_error(
      fmt::format("cannot write {}: it is no file, accepted: the path of a file", path));
}

// Renames unless `path` exists. File systems without that flag (NFS, 9p) have hard links, which
// also fail if the name is taken. Without either, an empty file reserves the name.
bool name_anew(const std::string& part, const std::string& path) {
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0)
    return true;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return false;
  if (::link(part.c_str(), path.c_str()) == 0) return ::unlink(part.c_str()) == 0;
  if (errno == EEXIST) return false;
  const Descriptor place(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return place && ::rename(part.c_str(), path.c_str()) == 0;
}

bool name_it(const std::string& part, const std::string& path, bool replaces) {
  return replaces ? ::rename(part.c_str(), path.c_str()) == 0 : name_anew(part, path);
}

}  // namespace

Status finish_file(int file, const std::string& part, const std::string& path, bool replaces) {
  if (is_special(path)) {
    ::unlink(part.c_str());
    return is_no_file(path);
  }
  const bool named = ::fsync(file) == 0 && name_it(part, path, replaces);
  if (named && sync_folder(parent_of(path))) return Done{};
  const int error = errno;
  if (!named) ::unlink(part.c_str());
  return in_words(path, error);
}

Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces,
                        FileSettings settings) {
  if (is_special(path)) return is_no_file(path);
  static std::atomic<unsigned> count{0};
  const std::string part = fmt::format("{}.{}-{}.part", path, ::getpid(), count++);
  const Descriptor file(
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, settings.mode));
  if (!file) return in_words(path, errno);
  for (const Piece& piece : pieces) {
    if (write_all(file.fd(), piece.data, piece.bytes)) continue;
    const int error = errno;
    ::unlink(part.c_str());
    return in_words(path, error);
  }
  return finish_file(file.fd(), part, path, settings.replaces);
}

}  // namespace grapevine
