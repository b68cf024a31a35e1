#include "kernels/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

namespace grapevine {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int kFutureWriteSeal = 0x10;  // newer than some systems' headers

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::make(size_t bytes) {
  static std::atomic<uint64_t> made{0};
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->fd_ = ::memfd_create("grapevine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory->fd_ < 0 || ::ftruncate(memory->fd_, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd_, 0);
  if (data == MAP_FAILED) return nullptr;
  memory->data_ = data;
  memory->bytes_ = bytes;
  memory->number_ = ++made;
#ifdef MADV_HUGEPAGE
  ::madvise(data, bytes, MADV_HUGEPAGE);  // advice: small pages work too, only slower
#endif
  if (::fcntl(memory->fd_, F_ADD_SEALS, kSizeSeals | kFutureWriteSeal | F_SEAL_SEAL) != 0 &&
      ::fcntl(memory->fd_, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return nullptr;
  return memory;
}

Result<std::shared_ptr<const SharedMemory>> SharedMemory::map(int fd, uint64_t most_bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat about {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &about) != 0)
    return world_error("shared memory refused: not a memfd that is sealed against shrinking");
  const auto bytes = static_cast<uint64_t>(about.st_size);
  if (bytes == 0 || bytes > most_bytes)
    return world_error("shared memory refused: " + std::to_string(bytes) +
                       " bytes, accepted: 1 to " + std::to_string(most_bytes));
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return world_error("shared memory refused: it cannot be mapped");
  const std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->data_ = data;
  memory->bytes_ = bytes;
  return std::shared_ptr<const SharedMemory>(memory);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace grapevine
