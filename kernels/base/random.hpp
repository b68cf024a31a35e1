// Random: numbers that depend only on (seed, rank, purpose, index).
//
// A counter-based generator, Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011): the n-th draw of a stream is a pure function of its key and n. So
// no result depends on the order in which actors run, and a stream can begin anywhere without a
// saved state. The distributions are our own formulas on raw bits, because those of the standard
// library differ between implementations.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace grapevine {

enum class Purpose : uint32_t {
  initial_point = 1,
  data_order = 2,
  augmentation = 3,
  gradient_noise = 4,
  gradient_timer = 5,
  gradient_duration = 6,
  gossip_timer = 7,
  partner = 8,
  link_delay = 9,
  link_loss = 10,
  graph = 11,
  partition = 12,
  problem = 13,
  compression = 14,
  membership = 15,
  test = 16,
  text = 17,
};

class Random {
 public:
  Random(uint64_t seed, uint32_t rank, Purpose purpose, uint64_t index = 0)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, static_cast<uint32_t>(index), rank,
                 static_cast<uint32_t>(purpose) | static_cast<uint32_t>(index >> 32) << 8} {}

  uint64_t bits() {
    if (left_ == 0) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      left_ = 2;
    }
    --left_;
    return static_cast<uint64_t>(block_[2 * left_ + 1]) << 32 | block_[2 * left_];
  }

  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // in [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double exponential() { return -std::log1p(-uniform()); }  // mean 1
  double normal() {                                         // the first of a Box-Muller pair
    const double radius = std::sqrt(2 * exponential());
    return radius * std::cos(2 * 3.14159265358979323846 * uniform());
  }
  uint32_t below(uint32_t n) {  // in [0, n), the high half of bits * n; the bias is below n / 2^64
    const uint64_t b = bits();
    return static_cast<uint32_t>(((b >> 32) * n + ((b & 0xffffffff) * n >> 32)) >> 32);
  }

  /// The generator itself: ten rounds on a counter under a key.
  static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
      k[0] += 0x9E3779B9;
      k[1] += 0xBB67AE85;
    }
    return c;
  }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int left_ = 0;
};

/// Shuffles [first, first + n) in place, by Fisher and Yates.
template <class Iterator>
void shuffle(Iterator first, uint32_t n, Random& random) {
  for (uint32_t i = n; i > 1; --i)
    std::swap(first[i - 1], first[random.below(i)]);
}

}  // namespace grapevine
