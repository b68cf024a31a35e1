// The cost of a compressor. Its bytes do not depend on threads, builds or odd numbers. And the
// refusals.
#include <cmath>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/passes.hpp"
#include "tests/kernels/compressors.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

/// The ResNet-20 of CIFAR-10 with batch normalisation: 272,474 parameters.
ParameterLayout resnet_20() {
  ParameterLayout layout(DType::f32);
  const auto convolution = [&](int64_t out, int64_t in, int64_t side) {
    layout.add("conv", {out, in, side, side}, true);
    layout.add("bn.weight", {out}, false);
    layout.add("bn.bias", {out}, false);
  };
  convolution(16, 3, 3);
  int64_t in = 16;
  for (const int64_t out : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      convolution(out, in, 3);
      convolution(out, out, 3);
      if (in != out) convolution(out, in, 1);
      in = out;
    }
  }
  layout.add("fc.weight", {10, 64}, true);
  layout.add("fc.bias", {10}, true);
  return layout;
}

}  // namespace

TEST_CASE("an epoch of ResNet-20 on a ring costs the bytes that its shapes say") {
  const ParameterLayout layout = resnet_20();
  CHECK(layout.size() == 272474u);
  const double plain = static_cast<double>(made("identity", layout).bytes());
  const auto mib_per_epoch = [](double bytes) { return bytes * 2 * 49 / 0x1p20; };
  CHECK(mib_per_epoch(plain) == Approx(101.86).margin(0.005));
  const double sign = static_cast<double>(made("sign", layout).bytes());
  CHECK(mib_per_epoch(sign) == Approx(3.21).margin(0.005));
  CHECK(plain / sign == Approx(31.8).margin(0.05));
  const double top = static_cast<double>(made("top-k:0.01", layout).bytes());
  CHECK(mib_per_epoch(top) == Approx(2.05).margin(0.005));
  CHECK(plain / top == Approx(49.6).margin(0.05));
  size_t rows = 0, columns = 0, matrices = 0, vectors = 0;
  for (const ParameterEntry& entry : layout.entries()) {
    if (entry.shape.size() <= 1) {
      vectors += entry.size();
    } else {
      ++matrices, rows += entry.rows(), columns += entry.columns();
    }
  }
  CHECK(matrices == 22u);
  CHECK(rows == 794u);
  CHECK(columns == 5755u);
  CHECK(vectors == 1578u);
  CHECK(made("low-rank:1", layout).bytes() == 4 * (794 + 5755 + 1578));
}

TEST_CASE("the encoded bytes do not depend on the number of threads, nor do the decoded numbers") {
  ParameterLayout layout(DType::f32);
  layout.add("bias", {5}, false);
  layout.add("big", {601, 1003}, true);  // above the size from which passes are split
  const Buffer v = random_buffer(layout.size(), DType::f32, 1);
  for (const std::string& spec : kSpecs) {
    const Compressor c = made(spec, layout);
    const auto bytes = encoded(c, v);
    const auto numbers_1 = numbers(compressed(c, v));
    for (const int threads : {2, 3}) {
      ForkJoin pool(threads);
      const Execution on{&pool};
      INFO(spec << " on " << threads);
      CHECK(encoded(c, v, on) == bytes);
      CHECK(numbers(compressed(c, v, on)) == numbers_1);
    }
  }
}

TEST_CASE("every build that this processor runs packs and unpacks the same bits") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const bool wide = dtype == DType::f64;
    constexpr size_t kSize = 1003;
    const Buffer v = random_buffer(kSize, dtype, 1);
    std::vector<std::vector<uint8_t>> packed;
    std::vector<std::vector<double>> added;
    for (const CpuBuild* const* build = cpu_builds(); *build != nullptr; ++build) {
      const PackingBuild& pack = (*build)->packing;
      Buffer y(kSize, dtype);
      std::vector<uint8_t> bytes(4 * kSize);
      uint8_t* at = bytes.data();
      pack.pack_signs(wide, v.vec().data, 0, kSize, at);
      pack.add_signs(wide, at, 0.3, 0, kSize, y.vec().data);
      for (const int bits : {1, 3, 8, 9, 13, 16}) {
        pack.quantise(wide, {bits, 0.25 * ((1 << bits) - 1), 0.5 * (1 << bits), v.vec().data}, 0,
                      kSize, at);
        pack.dequantise(wide, {bits, 0.3, -0.7, y.vec().data}, 0, kSize, at);
        at += 100;  // what is left of each is compared too
      }
      packed.push_back(bytes);
      added.push_back(numbers(y.vec()));
      added.back().push_back(pack.absolute_sum(wide, v.vec().data, 0, kSize));
      added.back().push_back(pack.largest(wide, v.vec().data, 0, kSize));
      std::vector<uint32_t> places(kSize + 8);
      const size_t count = pack.at_least(wide, v.vec().data, 1.5, 0, kSize, places.data());
      for (size_t k = 0; k < count; ++k)
        added.back().push_back(places[k]);
      CHECK(packed.back() == packed.front());
      CHECK(added.back() == added.front());
    }
  }
}

TEST_CASE("zeros compress to zeros, and no number, however odd, writes outside the vector") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ParameterLayout layout = awkward(dtype);
    const Buffer zeros(layout.size(), dtype);
    Buffer odd = random_buffer(layout.size(), dtype, 1);
    for (const size_t i : {0, 50, 200}) {
      const double value = i == 0 ? std::nan("") : i == 50 ? HUGE_VAL : -HUGE_VAL;
      if (dtype == DType::f32) {
        odd.vec().as<float>()[i] = static_cast<float>(value);
      } else {
        odd.vec().as<double>()[i] = value;
      }
    }
    for (const std::string& spec : kSpecs) {
      const Compressor c = made(spec, layout);
      INFO(spec);
      CHECK(square(compressed(c, zeros)) == 0);
      Buffer y = random_buffer(layout.size() + 8, dtype, 2);
      const auto before = numbers(y.vec());
      const auto inside = y.vec().part(4, layout.size());
      c.decode(kCpu, encoded(c, odd).data(), 3, 5, 1, inside);
      const std::vector<std::byte> never_written(c.bytes(), std::byte{0xfe});
      c.decode(kCpu, never_written.data(), 3, 5, 1, inside);
      for (size_t i = 0; i < 4; ++i) {
        CHECK(element(y, i) == before[i]);
        CHECK(element(y, layout.size() + 4 + i) == before[layout.size() + 4 + i]);
      }
    }
  }
}

TEST_CASE("a wrong compressor is refused with one line that names it and says what is accepted") {
  const ParameterLayout layout = awkward(DType::f32);
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"top-k:0",
       "compress is \"top-k:0\", accepted: a ratio above 0 and up to 1, e.g. top-k:0.01"},
      {"top-k:1.01", "a ratio above 0 and up to 1"},
      {"top-k:nan", "a ratio above 0 and up to 1"},
      {"top-k", "a ratio above 0 and up to 1"},
      {"random-k:-0.1", "a ratio above 0 and up to 1"},
      {"random-k:1x", "a ratio above 0 and up to 1"},
      {"low-rank:0", "compress is \"low-rank:0\", accepted: a rank from 1 on"},
      {"low-rank:-1", "a rank from 1 on"},
      {"quantise:0", "1 to 16 bits"},
      {"quantise:17", "1 to 16 bits"},
      {"quantise:2.5", "1 to 16 bits"},
      {"sign:2", "accepted: sign without a value"},
      {"zip", "accepted: identity, top-k:RATIO, random-k:RATIO, sign, low-rank:RANK"},
      {"", "compress is \"\", accepted: identity"},
  };
  for (const auto& [spec, words] : wrong) {
    const auto result = Compressor::make(spec, layout);
    REQUIRE_FALSE(result);
    CHECK(result.error().exit_status() == 2);
    CHECK_THAT(result.error().message, Catch::Contains(words));
    CHECK(result.error().message.find('\n') == std::string::npos);
  }
  CHECK(made("sign", layout).spec() == "sign");
}
