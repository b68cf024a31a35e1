// The cost of the codec: every simulated frame is encoded once and decoded once.
#include <benchmark/benchmark.h>

#include "kernels/base/check.hpp"
#include "messages/codec.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kLimitBytes = uint64_t{1} << 30;

FrameHeader sample() {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.from = 3;
  h.to = 4;
  h.number = 1234;
  h.count = 64;
  h.alpha_tilde = 1.5;
  return h;
}

void encodes(benchmark::State& state) {
  FrameHeader h = sample();
  for (auto _ : state) {
    ++h.number;
    benchmark::DoNotOptimize(encode(h));
  }
}
BENCHMARK(encodes);

void decodes(benchmark::State& state) {
  HeaderBytes bytes = encode(sample());
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    auto decoded = decode(bytes, kLimitBytes);
    benchmark::DoNotOptimize(decoded);
  }
}
BENCHMARK(decodes);

void encodes_and_decodes(benchmark::State& state) {
  FrameHeader h = sample();
  for (auto _ : state) {
    ++h.number;
    const HeaderBytes bytes = encode(h);
    auto decoded = decode(bytes, kLimitBytes);
    GV_CHECK(decoded->number == h.number);
  }
}
BENCHMARK(encodes_and_decodes);

void refuses(benchmark::State& state) {
  HeaderBytes bytes = encode(sample());
  bytes[16] = std::byte{9};  // another wire version
  for (auto _ : state) {
    auto decoded = decode(bytes, kLimitBytes);
    benchmark::DoNotOptimize(decoded);
  }
}
BENCHMARK(refuses);

}  // namespace
}  // namespace grapevine

BENCHMARK_MAIN();
