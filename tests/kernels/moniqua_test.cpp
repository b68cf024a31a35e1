// Moniqua's quantiser against its equations in long double, and its noise against the generator.
#include "kernels/passes/moniqua.hpp"

#include <cmath>
#include <cstring>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/passes.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

using Real = long double;
constexpr Execution kCpu{};
constexpr double kTheta = 0.25;

std::vector<std::byte> encoded(const ConstVec& x, uint64_t index = 5, uint32_t rank = 0) {
  std::vector<std::byte> bytes(moniqua_bytes(x.size) + 1, std::byte{0xa5});
  moniqua_encode(kCpu, kTheta, 7, rank, index, x, bytes.data());
  CHECK(bytes.back() == std::byte{0xa5});
  return bytes;
}

int level(const std::vector<std::byte>& bytes, size_t i) {
  return static_cast<int>(bytes[i / 4]) >> 2 * (i % 4) & 3;
}

Real centred(Real t) { return t - std::floor(t + 0.5L); }

/// The noise of element i, from the generator itself.
Real noise(uint64_t index, uint32_t rank, size_t i) {
  const auto block = Random::philox(
      {static_cast<uint32_t>(i / 8), static_cast<uint32_t>(index), rank,
       static_cast<uint32_t>(Purpose::compression) | static_cast<uint32_t>(index >> 32) << 8},
      {7, 0});
  const uint32_t half = block[i % 8 / 2] >> 16 * (i % 2) & 0xffff;
  return (half + 0.5L) / 65536;
}

}  // namespace

TEST_CASE("Moniqua sends the level of its equation, two bits each, sizes and dtypes") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t size : {0, 1, 3, 4, 5, 17, 1003, 5000}) {
      const Buffer x = random_buffer(size, dtype, 1);
      const uint64_t index = uint64_t{3} << 32 | 9;
      const auto bytes = encoded(x, index, 4);
      CHECK(bytes.size() == (size + 3) / 4 + 1);
      size_t wrong = 0;
      for (size_t i = 0; i < size; ++i) {
        const Real u = (centred(element(x, i) / (6 * kTheta)) + 0.5L) * 3 + noise(index, 4, i);
        const bool close = std::abs(u - std::round(u)) < 1e-5L;  // rounding may decide
        wrong += !close && level(bytes, i) != std::min(3, static_cast<int>(std::floor(u)));
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("Moniqua's received difference is (q B - x) mod B for both sides, times a") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t size : {1, 5, 17, 1003, 5000}) {
      const Buffer x = random_buffer(size, dtype, 1), theirs = random_buffer(size, dtype, 2);
      Buffer y = random_buffer(size, dtype, 3);
      const auto before = numbers(y.vec());
      const auto sent = encoded(x), received = encoded(theirs);
      moniqua_add(kCpu, kTheta, 0.4, x, sent.data(), received.data(), y);
      double worst = 0;
      for (size_t i = 0; i < size; ++i) {
        const Real b = 6 * kTheta, mine = element(x, i);
        const auto z = [&](int l) { return b * centred((l / 3.L - 0.5L) - mine / b); };
        const Real want = before[i] + 0.4L * (z(level(received, i)) - z(level(sent, i)));
        const Real off = std::abs(want - element(y, i));
        // At the seam of the modulus rounding decides by which side a difference is reached.
        const bool seam = std::abs(off - 0.4L * b) < 1e-3L;
        if (!seam) worst = std::max(worst, static_cast<double>(off));
      }
      CHECK(worst < 40 * rounding(dtype));
    }
  }
}

TEST_CASE("where all differences are below theta, Moniqua's estimate has no bias and no wrap") {
  constexpr size_t kSize = 400000;
  Buffer mine(kSize, DType::f64), theirs(kSize, DType::f64), y(kSize, DType::f64);
  Random random(3, 0, Purpose::test);
  double wanted = 0;
  for (size_t i = 0; i < kSize; ++i) {
    const double difference = random.uniform(-0.99 * kTheta, 0.99 * kTheta);
    mine.vec().as<double>()[i] = random.uniform(-50, 50);
    theirs.vec().as<double>()[i] = element(mine, i) + difference;
    wanted += difference;
  }
  moniqua_add(kCpu, kTheta, 1, mine, encoded(mine, 5, 0).data(), encoded(theirs, 5, 1).data(), y);
  double total = 0, worst = 0;
  for (size_t i = 0; i < kSize; ++i) {
    total += element(y, i);
    worst = std::max(worst, std::abs(element(y, i)));
  }
  const double level_step = 2 * kTheta;  // B / 3
  CHECK(worst <= kTheta + 2 * level_step);
  CHECK(std::abs(total - wanted) < 5 * level_step * std::sqrt(double{kSize}));
}

TEST_CASE(
    "ranks that share the noise and a value send the same bits, so equal models do not move") {
  const Buffer x = random_buffer(1003, DType::f32, 1);
  Buffer y = random_buffer(1003, DType::f32, 2);
  const auto before = numbers(y.vec());
  const auto ours = encoded(x), theirs = encoded(x);
  CHECK(ours == theirs);
  CHECK(encoded(x, 6) != ours);
  CHECK(encoded(x, 5, 1) != ours);
  moniqua_add(kCpu, kTheta, 1, x, ours.data(), theirs.data(), y);
  CHECK(numbers(y.vec()) == before);
}

TEST_CASE("Moniqua gives the same bits on any number of threads and in every build") {
  constexpr size_t kSize = 600011;
  const Buffer x = random_buffer(kSize, DType::f32, 1);
  const auto one = encoded(x);
  ForkJoin pool(3);
  std::vector<std::byte> many(moniqua_bytes(kSize) + 1, std::byte{0xa5});
  moniqua_encode({&pool}, kTheta, 7, 0, 5, x, many.data());
  CHECK(many == one);
  const Buffer mine = random_buffer(1003, DType::f32, 1),
               theirs = random_buffer(1003, DType::f32, 2);
  const auto sent = encoded(mine), received = encoded(theirs);
  Buffer y(1003, DType::f32);
  moniqua_add(kCpu, kTheta, 0.4, mine, sent.data(), received.data(), y);
  const auto bytes_of = [](const std::vector<std::byte>& bytes) {
    return reinterpret_cast<const uint8_t*>(bytes.data());
  };
  for (const CpuBuild* const* build = cpu_builds(); *build != nullptr; ++build) {
    Buffer other(1003, DType::f32);
    (*build)->packing.moniqua_add(false, {kTheta, 0.4, mine.vec().data, other.vec().data}, 0, 1003,
                                  bytes_of(sent), bytes_of(received));
    CHECK(numbers(other.vec()) == numbers(y.vec()));
    uint16_t numbers_16[8 * 21];
    const uint32_t key[2] = {7, 0}, counter[4] = {0, 5, 0, 14};
    (*build)->packing.noise(key, counter, 2, 21, numbers_16);
    CHECK((numbers_16[3 * 8 + 3] + 0.5L) / 65536 == noise(5, 0, 5 * 8 + 3));
    CHECK((numbers_16[18 * 8 + 4] + 0.5L) / 65536 == noise(5, 0, 20 * 8 + 4));
  }
}
