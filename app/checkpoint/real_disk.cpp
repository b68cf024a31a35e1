#include "app/checkpoint/real_disk.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace grapevine {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

bool write_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t wrote = ::write(file, at, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    at += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
  return true;
}

// Each says whether it has happened; if not, errno says why.

bool happen(const MakeFolder& make) {
  return ::mkdir(make.path.c_str(), 0777) == 0 || errno == EEXIST;
}

bool happen(const WriteFile& write) {
  const Descriptor file(
      ::open(write.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file < 0 || !write_all(file, write.head.data(), write.head.size())) return false;
  for (const Piece& piece : write.pieces)
    if (!write_all(file, piece.data, piece.bytes)) return false;
  return true;
}

// A file system that cannot sync a folder says EINVAL.
bool sync(const std::string& path, int flags) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  return file >= 0 && (::fsync(file) == 0 || ((flags & O_DIRECTORY) && errno == EINVAL));
}

bool happen(const SyncFile& file) { return sync(file.path, 0); }
bool happen(const SyncFolder& folder) { return sync(folder.path, O_DIRECTORY); }

bool happen(const Rename& name) { return std::rename(name.from.c_str(), name.to.c_str()) == 0; }

bool happen(const RemoveFile& file) { return ::unlink(file.path.c_str()) == 0 || errno == ENOENT; }

bool happen(const RemoveFolder& folder) {
  std::error_code failed;
  fs::remove_all(folder.path, failed);
  errno = failed.value();
  return !failed;
}

std::string path_of(const DiskEffect& effect) {
  return std::visit(
      []<class E>(const E& e) {
        if constexpr (std::is_same_v<E, Rename>) {
          return e.to;
        } else {
          return e.path;
        }
      },
      effect);
}

std::optional<std::string> read_file(const std::string& path) {
  constexpr off_t kMostBytes = off_t{1} << 40;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file < 0 || ::fstat(file, &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_size > kMostBytes)
    return std::nullopt;
  std::string bytes(static_cast<size_t>(about.st_size), '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = ::read(file, bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    at += static_cast<size_t>(got);
  }
  return bytes;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    names.push_back(at->path().filename().string());
  return names;
}

}  // namespace

Status carry_out(const DiskEffects& effects) {
  for (const DiskEffect& effect : effects) {
    if (std::visit([](const auto& e) { return happen(e); }, effect)) continue;
    return world_error(fmt::format("cannot write {}: {}", path_of(effect), std::strerror(errno)));
  }
  return Done{};
}

DiskView real_disk() { return {names_in, read_file}; }

}  // namespace grapevine
