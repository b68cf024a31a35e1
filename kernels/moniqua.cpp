#include "kernels/moniqua.hpp"

#include "kernels/cpu/split.hpp"
#include "kernels/random.hpp"

namespace grapevine {

using namespace passes;

namespace {

uint8_t* raw(std::byte* bytes) { return reinterpret_cast<uint8_t*>(bytes); }
const uint8_t* raw(const std::byte* bytes) { return reinterpret_cast<const uint8_t*>(bytes); }

}  // namespace

void moniqua_encode(const Execution& on, double theta, uint64_t seed, uint32_t rank, uint64_t index,
                    ConstVec x, std::byte* out) {
  GV_CHECK((on.device == nullptr));
  GV_CHECK(theta > 0);
  check_same(x, x);
  const uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const uint32_t counter[4] = {
      0, static_cast<uint32_t>(index), rank,
      static_cast<uint32_t>(Purpose::compression) | static_cast<uint32_t>(index >> 32) << 8};
  const MoniquaArguments g{theta, 0, x.data, nullptr};
  const PackingBuild& build = best_build().packing;
  split(on, x, [&](size_t first, size_t last) {
    constexpr size_t kBlock = 1024;  // a multiple of the elements that a block of noise serves
    uint16_t noise[kBlock];
    for (size_t i = first; i < last; i += kBlock) {
      const size_t end = std::min(last, i + kBlock);
      build.noise(key, counter, static_cast<uint32_t>(i / kGroup),
                  static_cast<uint32_t>((end + kGroup - 1) / kGroup), noise);
      build.moniqua(wide(x.dtype), g, noise, i, end, raw(out));
    }
  });
}

void moniqua_add(const Execution& on, double theta, double a, ConstVec x, const std::byte* sent,
                 const std::byte* received, Vec y) {
  GV_CHECK((on.device == nullptr));
  GV_CHECK(theta > 0);
  check_same(x, x);
  check_same(x, y);
  const MoniquaArguments g{theta, a, x.data, y.data};
  split(on, x, [&](size_t first, size_t last) {
    best_build().packing.moniqua_add(wide(x.dtype), g, first, last, raw(sent), raw(received));
  });
}

}  // namespace grapevine
