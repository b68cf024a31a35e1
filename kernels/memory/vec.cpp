#include "kernels/memory/vec.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "kernels/memory/huge_page.hpp"

namespace grapevine {
namespace {

constexpr size_t kSmallPageBytes = 4096;
constexpr size_t kCacheLineBytes = 64;

// A pass reads several vectors in step. If all start at the same offset of a huge page, they may
// fall on the same DRAM bank. At some offsets within a small page (such as 64 bytes apart), the
// processor mistakes stores for later loads. Both were seen to halve the speed of a pass. So large
// buffers start at one of 16 offsets in turn, and other buffers at a small page.
constexpr size_t kColors = 16;
constexpr size_t kColorBytes = (size_t{32} << 10) + 256;

size_t next_color_bytes() {
  static std::atomic<size_t> made{0};  // affects addresses, never contents
  return made.fetch_add(1, std::memory_order_relaxed) % kColors * kColorBytes;
}

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A mapping of complete huge pages: asks for one page more and returns the unaligned ends.
void* map_huge(size_t bytes) {
  void* raw = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  const auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = rounded_up(start, kHugePageBytes);
  const size_t head = aligned - start;
  const size_t tail = kHugePageBytes - head;
  if (head > 0) munmap(raw, head);
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  void* data = reinterpret_cast<void*>(aligned);
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // advice: small pages work, too, but are slower
#endif
  return data;
}

}  // namespace

Buffer::Buffer(size_t size, DType dtype) : size_(size), dtype_(dtype) {
  GV_CHECK(size <= std::numeric_limits<size_t>::max() / 16);
  const size_t bytes = size * size_of(dtype);
  if (bytes >= kHugePageBytes) {
    const size_t color_bytes = next_color_bytes();
    data_ =
        static_cast<char*>(map_huge(rounded_up(bytes + color_bytes, kHugePageBytes))) + color_bytes;
    home_ = Home::mapping;
  } else {
    const size_t alignment = bytes < 4 * kSmallPageBytes ? kCacheLineBytes : kSmallPageBytes;
    const size_t heap_bytes = rounded_up(bytes + 1, alignment);  // never 0 bytes, so never null
    data_ = std::aligned_alloc(alignment, heap_bytes);
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, heap_bytes);
  }
}

Buffer::~Buffer() {
  if (home_ == Home::workspace) {
    give_back();
  } else if (home_ == Home::mapping) {
    const auto data = reinterpret_cast<uintptr_t>(data_);
    const uintptr_t start = data / kHugePageBytes * kHugePageBytes;
    munmap(reinterpret_cast<void*>(start),
           rounded_up(data + size_ * size_of(dtype_), kHugePageBytes) - start);
  } else {
    std::free(data_);
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      dtype_(other.dtype_),
      home_(std::exchange(other.home_, Home::heap)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(dtype_, taken.dtype_);
  std::swap(home_, taken.home_);
  return *this;
}

}  // namespace grapevine
