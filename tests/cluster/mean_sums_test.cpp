// Sums as they travel: what is lost on the way, which is less than an fp32 loses.
#include <cmath>
#include <limits>

#include "actors/cluster/mean_sums.hpp"
#include "kernels/base/random.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr size_t kCount = 1001;  // odd: the last byte is half full

double ulp(double x) {
  const auto near = static_cast<float>(std::abs(x));
  return static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - near;
}

Buffer packed(const Buffer& sums, double ranks) {
  const PackedShape shape = packed_shape(sums.size(), DType::f32);
  Buffer out(shape.count, shape.dtype);
  pack(sums, ranks, out);
  return out;
}

Buffer random_numbers(uint64_t seed) {
  Random random(seed, 1, Purpose::test);
  Buffer all(kCount, DType::f64);
  for (size_t k = 0; k < kCount; ++k)
    all.vec().as<double>()[k] = random.normal() * std::exp(20 * random.normal());
  return all;
}

}  // namespace

TEST_CASE("a sum comes back within a sixteenth of the last place of its fp32 mean") {
  for (const double ranks : {1.0, 3.0, 256.0}) {
    const Buffer sums = random_numbers(static_cast<uint64_t>(ranks));
    Buffer back(kCount, DType::f64);
    add_packed(packed(sums, ranks), ranks, back);
    size_t finer = 0;
    for (size_t k = 0; k < kCount; ++k) {
      const double was = sums.vec().as<double>()[k], is = back.vec().as<double>()[k];
      INFO(was << " of " << ranks << " ranks");
      CHECK(std::abs(is - was) <= ranks * ulp(was / ranks) / 16);
      finer += is != ranks * static_cast<double>(static_cast<float>(was / ranks));
    }
    CHECK(finer > kCount / 2);
  }
}

TEST_CASE("fp32 numbers of one rank, zero, the least and the largest come back as they were") {
  Buffer sums(6, DType::f64);
  const float exact[] = {0.0f,
                         -0.0f,
                         1.5f,
                         -std::numeric_limits<float>::max(),
                         std::numeric_limits<float>::denorm_min(),
                         -0.1f};
  for (size_t k = 0; k < 6; ++k)
    sums.vec().as<double>()[k] = static_cast<double>(exact[k]);
  Buffer back(6, DType::f64);
  add_packed(packed(sums, 1), 1, back);
  for (size_t k = 0; k < 6; ++k)
    CHECK(back.vec().as<double>()[k] == static_cast<double>(exact[k]));
}

TEST_CASE("sums beyond the range of fp32 travel, for their mean is in it") {
  Buffer sums(2, DType::f64), back(2, DType::f64);
  sums.vec().as<double>()[0] = 1e3 * static_cast<double>(std::numeric_limits<float>::max());
  const Buffer some = packed(sums, 1000);
  CHECK(is_finite(some, 2));
  add_packed(some, 1000, back);
  CHECK(back.vec().as<double>()[0] == Approx(sums.vec().as<double>()[0]).epsilon(1e-8));
}

TEST_CASE("the mean along a tree is the fp32 of the exact one, or the number next to it") {
  constexpr int kLevels = 5, kChildren = 3;
  Random random(7, 1, Purpose::test);
  std::vector<Buffer> sums;
  Buffer exact(kCount, DType::f64);
  Buffer base = random_numbers(5);
  size_t leaves = 1;
  for (int level = 0; level < kLevels; ++level)
    leaves *= kChildren;
  for (size_t leaf = 0; leaf < leaves; ++leaf) {  // ranks that nearly agree, as trained ones do
    Buffer& x = sums.emplace_back(kCount, DType::f64);
    for (size_t k = 0; k < kCount; ++k) {
      const auto value = static_cast<float>(base.vec().as<double>()[k] * random.uniform(0.9, 1.1));
      x.vec().as<double>()[k] = static_cast<double>(value);
      exact.vec().as<double>()[k] += static_cast<double>(value);
    }
  }
  double ranks = 1;
  for (; sums.size() > 1; ranks *= kChildren) {
    std::vector<Buffer> above;
    for (size_t k = 0; k < sums.size(); ++k) {
      if (k % kChildren == 0) above.emplace_back(kCount, DType::f64);
      add_packed(packed(sums[k], ranks), ranks, above.back());
    }
    sums = std::move(above);
  }
  size_t same = 0;
  for (size_t k = 0; k < kCount; ++k) {
    const double mean = exact.vec().as<double>()[k] / ranks;
    const auto is = static_cast<float>(sums[0].vec().as<double>()[k] / ranks);
    CHECK(std::abs(static_cast<double>(is) - mean) <= ulp(mean));
    same += is == static_cast<float>(mean);
  }
  WARN(same << " of " << kCount << " are the fp32 of the exact mean");
  CHECK(same > kCount * 9 / 10);
}
