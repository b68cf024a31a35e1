// Checksum: notices that bytes have changed on their way. 64 bits of what is added in pieces of any
// size; the pieces do not matter. A value.
//
// Sums of the 32-bit halves of all words, and sums of those sums, like Fletcher's (IEEE
// Transactions on Communications 30(1), 1982), mixed to 64 bits. Protects from accidents, not from
// anybody.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace grapevine {

class Checksum {
 public:
  void add(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  static constexpr size_t kLanes = 4, kBlockBytes = 8 * kLanes;
  using Lanes = std::array<uint64_t, kLanes>;
  struct Sums {
    Lanes low{}, high{}, lows{}, highs{};
  };
  static void add_blocks(Sums&, const std::byte* data, size_t blocks);

  Sums sums_;
  std::array<std::byte, kBlockBytes> left_{};  // the start of a block
  size_t left_bytes_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace grapevine
