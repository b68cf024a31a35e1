// The sum that travels with a payload: what changes on the way changes it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/checksum.hpp"
#include "kernels/base/random.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

using Bytes = std::vector<unsigned char>;

uint64_t sum_of(const Bytes& bytes) {
  Checksum sum;
  sum.add(bytes.data(), bytes.size());
  return sum.value();
}

Bytes random_bytes(size_t n) {
  Bytes bytes(n);
  Random random(1, 0, Purpose::test, n);
  for (auto& b : bytes)
    b = static_cast<unsigned char>(random.below(256));
  return bytes;
}

}  // namespace

TEST_CASE("a checksum is one of the bytes alone, whatever the pieces they come in") {
  const Bytes bytes = random_bytes(1001);
  const uint64_t whole = sum_of(bytes);
  Random random(2, 0, Purpose::test);
  for (int run = 0; run < 200; ++run) {
    Checksum sum;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(random.below(90), bytes.size() - at);
      sum.add(bytes.data() + at, n);
      at += n;
    }
    REQUIRE(sum.value() == whole);
  }
}

TEST_CASE("every flipped bit changes the checksum, and so does the same bit of every word") {
  for (const size_t n : {1u, 7u, 31u, 32u, 33u, 100u, 160u}) {
    Bytes bytes = random_bytes(n);
    const uint64_t before = sum_of(bytes);
    for (size_t bit = 0; bit < 8 * n; ++bit) {
      bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
      REQUIRE(sum_of(bytes) != before);
      bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 64; ++bit) {
      Bytes stuck = bytes;
      for (size_t at = bit / 8; at < n; at += 8)
        stuck[at] ^= static_cast<unsigned char>(1u << bit % 8);
      if (stuck != bytes) REQUIRE(sum_of(stuck) != before);
    }
  }
}

TEST_CASE("words that are swapped or shifted, zeros more or less change the checksum") {
  Bytes bytes = random_bytes(320);
  const uint64_t before = sum_of(bytes);
  for (size_t from = 0; from < 320; from += 8) {
    for (size_t to = from + 8; to < 320; to += 8) {
      Bytes swapped = bytes;
      std::swap_ranges(swapped.begin() + static_cast<ptrdiff_t>(from),
                       swapped.begin() + static_cast<ptrdiff_t>(from) + 8,
                       swapped.begin() + static_cast<ptrdiff_t>(to));
      REQUIRE(sum_of(swapped) != before);
    }
  }
  std::rotate(bytes.begin(), bytes.begin() + 1, bytes.end());
  CHECK(sum_of(bytes) != before);
  CHECK(sum_of(Bytes(64)) != sum_of(Bytes(63)));
  CHECK(sum_of({}) != sum_of(Bytes(1)));
}
