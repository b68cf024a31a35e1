#include "kernels/passes/moniqua.hpp"

#include "kernels/passes/launch.hpp"

namespace grapevine {

using namespace passes;

namespace {

uint8_t* raw(void* bytes) { return static_cast<uint8_t*>(bytes); }
const uint8_t* raw(const void* bytes) { return static_cast<const uint8_t*>(bytes); }

/// Elements [first, last), `first` a multiple of kGroup.
void encode(const CpuBuild& build, bool wide, const MoniquaEncodeArguments& g, size_t first,
            size_t last) {
  const Draws& n = g.noise;
  const uint32_t key[2] = {static_cast<uint32_t>(n.seed), static_cast<uint32_t>(n.seed >> 32)};
  const uint32_t counter[4] = {
      0, static_cast<uint32_t>(n.index), n.rank,
      static_cast<uint32_t>(Purpose::compression) | static_cast<uint32_t>(n.index >> 32) << 8};
  constexpr size_t kBlock = 1024;  // a multiple of the elements per block of noise
  uint16_t noise[kBlock];
  for (size_t i = first; i < last; i += kBlock) {
    const size_t end = std::min(last, i + kBlock);
    build.packing.noise(key, counter, static_cast<uint32_t>(i / kGroup),
                        static_cast<uint32_t>((end + kGroup - 1) / kGroup), noise);
    build.packing.moniqua(wide, {g.theta, 0, g.x, nullptr}, noise, i, end, raw(g.bytes));
  }
}

void add(const CpuBuild& build, bool wide, const MoniquaAddArguments& g, size_t first,
         size_t last) {
  build.packing.moniqua_add(wide, {g.theta, g.a, g.x, g.y}, first, last, raw(g.sent),
                            raw(g.received));
}

}  // namespace

void passes::run_whole(const CpuBuild& build, bool wide, const MoniquaEncodeArguments& g,
                       size_t size) {
  encode(build, wide, g, 0, size);
}

void passes::run_whole(const CpuBuild& build, bool wide, const MoniquaAddArguments& g,
                       size_t size) {
  add(build, wide, g, 0, size);
}

void moniqua_encode(const Execution& on, double theta, uint64_t seed, uint32_t rank, uint64_t index,
                    ConstVec x, std::byte* out) {
  GV_CHECK(theta > 0);
  check_same(x, x);
  const MoniquaEncodeArguments g{theta, {seed, rank, index}, x.data, out};
  const bool is_wide = wide(x.dtype);
  if (on.device != nullptr) {
    if (x.size > 0) queue(on, is_wide, g, x.size);
    return;
  }
  split(on, x, [&](size_t first, size_t last) { encode(best_build(), is_wide, g, first, last); });
}

void moniqua_add(const Execution& on, double theta, double a, ConstVec x, const std::byte* sent,
                 const std::byte* received, Vec y) {
  GV_CHECK(theta > 0);
  check_same(x, x);
  check_same(x, y);
  const MoniquaAddArguments g{theta, a, x.data, sent, received, y.data};
  const bool is_wide = wide(x.dtype);
  if (on.device != nullptr) {
    if (x.size > 0) queue(on, is_wide, g, x.size);
    return;
  }
  split(on, x, [&](size_t first, size_t last) { add(best_build(), is_wide, g, first, last); });
}

}  // namespace grapevine
