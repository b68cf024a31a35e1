#include "app/checkpoint/real_disk.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/memory_left.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

// Each returns whether it succeeded; if not, errno has the reason.

bool happen(const MakeFolder& make) {
  return ::mkdir(make.path.c_str(), 0777) == 0 || errno == EEXIST;
}

bool happen(const WriteFile& write) {
  const Descriptor file(
      ::open(write.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file || !write_all(file.fd(), write.head.data(), write.head.size())) return false;
  for (const Piece& piece : write.pieces)
    if (!write_all(file.fd(), piece.data, piece.bytes)) return false;
  return true;
}

bool happen(const SyncFile& sync) {
  const Descriptor file(::open(sync.path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::fsync(file.fd()) == 0;
}

bool happen(const SyncFolder& folder) { return sync_folder(folder.path); }

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

std::optional<std::string> read_file(const std::string& path, uint64_t at_most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file || ::fstat(file.fd(), &about) != 0 || !S_ISREG(about.st_mode) ||
      static_cast<uint64_t>(about.st_size) > std::min(at_most, memory_left()))
    return std::nullopt;
  std::string bytes(static_cast<size_t>(about.st_size), '\0');
  if (!read_all(file.fd(), bytes.data(), bytes.size())) return std::nullopt;
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
