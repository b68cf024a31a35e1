#include "kernels/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace grapevine {
namespace {

// Four words at once; where the processor has less, the compiler takes two steps.
using Words [[gnu::vector_size(32)]] = uint64_t;

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ std::rotl(hash, 29) ^ std::rotl(hash, 47);
}

}  // namespace

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
[[gnu::target_clones("avx2", "default")]]
#endif
void Checksum::add_blocks(Sums& sums, const std::byte* data, size_t blocks) {
  Words low, high, lows, highs;
  static_assert(sizeof low == sizeof sums.low);
  std::memcpy(&low, &sums.low, sizeof low);
  std::memcpy(&high, &sums.high, sizeof high);
  std::memcpy(&lows, &sums.lows, sizeof lows);
  std::memcpy(&highs, &sums.highs, sizeof highs);
  for (size_t k = 0; k < blocks; ++k) {
    Words words;
    std::memcpy(&words, data + k * kBlockBytes, sizeof words);
    low += words & 0xFFFFFFFF;
    high += words >> 32;
    lows += low;
    highs += high;
  }
  std::memcpy(&sums.low, &low, sizeof low);
  std::memcpy(&sums.high, &high, sizeof high);
  std::memcpy(&sums.lows, &lows, sizeof lows);
  std::memcpy(&sums.highs, &highs, sizeof highs);
}

void Checksum::add(const void* data, size_t bytes) {
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(data);
  bytes_ += bytes;
  if (left_bytes_ > 0) {
    const size_t n = std::min(bytes, kBlockBytes - left_bytes_);
    std::memcpy(left_.data() + left_bytes_, from, n);
    left_bytes_ += n;
    from += n;
    bytes -= n;
    if (left_bytes_ < kBlockBytes) return;
    add_blocks(sums_, left_.data(), 1);
    left_bytes_ = 0;
  }
  add_blocks(sums_, from, bytes / kBlockBytes);
  left_bytes_ = bytes % kBlockBytes;
  if (left_bytes_ > 0) std::memcpy(left_.data(), from + bytes - left_bytes_, left_bytes_);
}

uint64_t Checksum::value() const {
  Sums sums = sums_;
  if (left_bytes_ > 0) {
    std::array<std::byte, kBlockBytes> last{};
    std::memcpy(last.data(), left_.data(), left_bytes_);
    add_blocks(sums, last.data(), 1);
  }
  uint64_t hash = bytes_;
  for (size_t k = 0; k < kLanes; ++k)
    for (const uint64_t sum : {sums.low[k], sums.high[k], sums.lows[k], sums.highs[k]})
      hash = mixed(hash, sum);
  return hash;
}

}  // namespace grapevine
