#include "kernels/memory/shared_memory.hpp"

#include <fmt/core.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "kernels/memory/huge_page.hpp"

namespace grapevine {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Newer than some systems' headers.
constexpr int kFutureWriteSeal = 0x10, kPopulateWrite = 23, kCollapse = 25;

/// Maps at an address that fits huge pages, if the size is at least one. MAP_FAILED: it cannot.
void* mapped(size_t bytes, int protection, int fd) {
  if (bytes < kHugePageBytes) return ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  const size_t reserved = bytes + kHugePageBytes;
  void* raw =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return raw;
  auto* start = static_cast<char*>(raw);
  char* at = start + (-reinterpret_cast<uintptr_t>(raw) & (kHugePageBytes - 1));
  void* data = ::mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    ::munmap(raw, reserved);
    return data;
  }
  // The excess; the mapping ends with its last small page.
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  char* end = at + (bytes + page - 1) / page * page;
  if (at > start) ::munmap(start, static_cast<size_t>(at - start));
  if (end < start + reserved) ::munmap(end, static_cast<size_t>(start + reserved - end));
  return data;
}

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::make(size_t bytes, Writers writers, Pages pages) {
  static std::atomic<uint64_t> made{0};
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->fd_ = make_memory("grapevine");
  const int fd = memory->fd_.fd();
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* data = mapped(bytes, PROT_READ | PROT_WRITE, fd);
  if (data == MAP_FAILED) return nullptr;
  memory->data_ = data;
  memory->bytes_ = bytes;
  memory->number_ = ++made;
  if (pages == Pages::now) memory->gather();
  const int write_seal = writers == Writers::maker ? kFutureWriteSeal : 0;
  if (::fcntl(fd, F_ADD_SEALS, kSizeSeals | write_seal | F_SEAL_SEAL) != 0 &&
      ::fcntl(fd, F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
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
    return world_error(
        fmt::format("shared memory refused: {} bytes, accepted: 1 to {}", bytes, most_bytes));
  void* data = mapped(bytes, PROT_READ, fd);
  if (data == MAP_FAILED) return world_error("shared memory refused: it cannot be mapped");
  const std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->data_ = data;
  memory->bytes_ = bytes;
  return std::shared_ptr<const SharedMemory>(memory);
}

/// Most systems give a memfd small pages, whatever the advice, and they double the time of a pass.
/// One call collapses them into huge pages for all processes that map the memory. If it fails, the
/// small pages remain.
void SharedMemory::gather() {
  const size_t whole = bytes_ / kHugePageBytes * kHugePageBytes;
  if (whole > 0 && ::madvise(data_, whole, kPopulateWrite) == 0) ::madvise(data_, whole, kCollapse);
}

bool SharedMemory::is_filled() const {
  struct stat about {};
  constexpr blkcnt_t kBlock = 512;  // the unit of st_blocks on every file system
  return ::fstat(fd_.fd(), &about) == 0 && about.st_blocks * kBlock >= about.st_size;
}

SharedMemory::~SharedMemory() {
  pin_.drop();
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace grapevine
