#include "kernels/base/descriptor.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace grapevine {
namespace {

constexpr unsigned kNoExecSeal = 8;  // newer than some systems' headers

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

// Since Linux 6.3 a machine may require the last flag (vm.memfd_noexec); older kernels reject it.
Descriptor make_memory(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor memory(::memfd_create(name, kFlags | kNoExecSeal));
  return memory ? std::move(memory) : Descriptor(::memfd_create(name, kFlags));
}

bool write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t wrote = ::write(fd, at, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    at += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
  return true;
}

bool read_all(int fd, void* data, size_t bytes) {
  size_t at = 0;
  while (at < bytes) {
    const ssize_t got =
        ::pread(fd, static_cast<char*>(data) + at, bytes - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += static_cast<size_t>(got);
  }
  return true;
}

bool sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder && (::fsync(folder.fd()) == 0 || errno == EINVAL);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace grapevine
