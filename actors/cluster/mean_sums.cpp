#include "actors/cluster/mean_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

constexpr double kSteps = 16;  // per last place

// The value of the last bit of an fp32 number.
double last_place(float x) {
  const uint32_t exponent = std::bit_cast<uint32_t>(x) >> 23 & 0xFF;
  return std::bit_cast<double>(uint64_t{std::max(exponent, 1u) - 150 + 1023} << 52);
}

}  // namespace

PackedShape packed_shape(uint64_t count, DType mean) {
  if (mean == DType::f64) return {DType::f64, count};
  return {DType::bytes, count * sizeof(float) + (count + 1) / 2};
}

void pack(ConstVec sums, double ranks, Vec packed) {
  GV_CHECK(packed.size == packed_shape(sums.size, DType::f32).count);
  const auto* from = sums.as<double>();
  auto* high = static_cast<float*>(packed.data);
  auto* low = static_cast<uint8_t*>(packed.data) + sums.size * sizeof(float);
  std::memset(low, 0, (sums.size + 1) / 2);
  const double share = 1 / std::max(1.0, ranks);
  for (size_t k = 0; k < sums.size; ++k) {
    const double mean = from[k] * share;
    high[k] = static_cast<float>(mean);
    const double rest = (mean - static_cast<double>(high[k])) / last_place(high[k]);
    const double step = std::clamp(std::nearbyint(kSteps * rest), -8.0, 7.0);
    low[k / 2] |= static_cast<uint8_t>(static_cast<int>(step) + 8) << k % 2 * 4;
  }
}

void add_packed(ConstVec packed, double ranks, Vec sums) {
  if (packed.dtype == DType::f64) return axpy({}, 1, packed, sums);
  GV_CHECK(packed.size == packed_shape(sums.size, DType::f32).count);
  const auto* high = static_cast<const float*>(packed.data);
  const auto* low = static_cast<const uint8_t*>(packed.data) + sums.size * sizeof(float);
  auto* to = sums.as<double>();
  for (size_t k = 0; k < sums.size; ++k) {
    const int step = (low[k / 2] >> k % 2 * 4 & 0xF) - 8;
    to[k] += ranks * (static_cast<double>(high[k]) + step / kSteps * last_place(high[k]));
  }
}

bool is_finite(ConstVec packed, uint64_t count) {
  if (packed.dtype == DType::f64) return all_finite({}, packed);
  return all_finite({}, ConstVec(packed.data, count, DType::f32));
}

Buffer mean_of(ConstVec sum, double n, DType dtype) {
  Buffer mean(sum.size, dtype);
  for (size_t k = 0; k < sum.size; ++k) {
    const double value = sum.as<double>()[k] / n;
    if (dtype == DType::f32) {
      mean.vec().as<float>()[k] = static_cast<float>(value);
    } else {
      mean.vec().as<double>()[k] = value;
    }
  }
  return mean;
}

}  // namespace grapevine
