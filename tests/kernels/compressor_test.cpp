// Every compressor against its definition.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/compressors.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

/// C(v) of one tensor by the definitions of compressor.hpp, naively.
std::vector<double> expected(const std::string& spec, const std::vector<double>& v) {
  const size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  std::vector<double> out(v.size());
  double sum = 0, most = 0;
  for (const double x : v)
    sum += std::abs(x), most = std::max(most, std::abs(x));
  if (v.empty()) return out;
  if (kind == "sign") {
    for (size_t i = 0; i < v.size(); ++i) {
      out[i] = std::copysign(sum / static_cast<double>(v.size()), v[i]);
    }
  } else if (kind == "quantise") {
    const double top = std::pow(2, std::stoi(spec.substr(colon + 1))) - 1;
    for (size_t i = 0; i < v.size(); ++i) {
      out[i] = most * (2 * std::floor((v[i] / most + 1) / 2 * top + 0.5) / top - 1);
    }
  } else if (kind == "top-k") {
    const double ratio = std::stod(spec.substr(colon + 1));
    const auto k = std::max(1., std::floor(ratio * static_cast<double>(v.size())));
    std::vector<size_t> order(v.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t i, size_t j) { return std::abs(v[i]) > std::abs(v[j]); });
    for (size_t i = 0; i < static_cast<size_t>(k); ++i)
      out[order[i]] = v[order[i]];
  } else {
    out = v;
  }
  return out;
}

/// v lies so near the middle between two levels that rounding may choose.
bool midway(const std::string& spec, double v, const std::vector<double>& all) {
  double most = 0;
  for (const double x : all)
    most = std::max(most, std::abs(x));
  const double top = std::pow(2, std::stoi(spec.substr(spec.find(':') + 1))) - 1;
  const double level = (v / most + 1) / 2 * top + 0.5;
  return std::abs(level - std::round(level)) < 1e-6 * top;
}

}  // namespace

TEST_CASE("identity, sign, quantise and top-k are what their definitions say, tensor by tensor") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ParameterLayout layout = awkward(dtype);
    const Buffer v = random_buffer(layout.size(), dtype, 1);
    for (const std::string& spec : kSpecs) {
      if (spec.starts_with("low-rank") || spec.starts_with("random-k")) continue;
      const Buffer got = compressed(made(spec, layout), v);
      for (const ParameterEntry& entry : layout.entries()) {
        const auto v_of = numbers(ConstVec(v).part(entry.offset, entry.size()));
        const auto want = expected(spec, v_of);
        const auto kept = numbers(ConstVec(got).part(entry.offset, entry.size()));
        double worst = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          const bool between = spec.starts_with("quantise") && midway(spec, v_of[i], v_of);
          if (!between) worst = std::max(worst, std::abs(want[i] - kept[i]));
        }
        INFO(spec << " " << entry.name);
        CHECK(worst < 30 * rounding(dtype));
      }
    }
  }
}

TEST_CASE("decoding adds a multiple of C(v) to y, and encoding leaves v as it was") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ParameterLayout layout = awkward(dtype);
    const Buffer v = random_buffer(layout.size(), dtype, 1);
    const auto before = numbers(v);
    for (const std::string& spec : kSpecs) {
      const Compressor c = made(spec, layout);
      const auto bytes = encoded(c, v);
      const auto plain = numbers(compressed(c, v));
      Buffer y = random_buffer(layout.size(), dtype, 2);
      const auto start = numbers(y.vec());
      c.decode(kCpu, bytes.data(), 3, 5, -0.7, y);
      double worst = 0;
      for (size_t i = 0; i < plain.size(); ++i) {
        worst = std::max(worst, std::abs(start[i] - 0.7 * plain[i] - element(y, i)));
      }
      INFO(spec);
      CHECK(worst < 60 * rounding(dtype));
      CHECK(numbers(v) == before);
    }
  }
}

TEST_CASE("every compressor but that of one bit is a contraction: |v - C(v)| < |v|") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ParameterLayout layout = awkward(dtype);
    const Buffer v = random_buffer(layout.size(), dtype, 1);
    for (const std::string& spec : kSpecs) {
      if (spec == "quantise:1") continue;
      INFO(spec);
      CHECK(square_left(v, compressed(made(spec, layout), v)) < square(v));
    }
  }
}

TEST_CASE("top-k finds the largest of many thousands, ties to the first, whatever hides them") {
  constexpr size_t kSize = 50000;
  for (const int shape : {0, 1, 2, 3, 4}) {
    const ParameterLayout layout = ParameterLayout::flat(kSize, DType::f32);
    Buffer v = random_buffer(kSize, DType::f32, 1);
    float* at = v.vec().as<float>();
    for (size_t i = 0; i < kSize; ++i) {
      if (shape == 1) at[i] = std::round(at[i] * 4);                      // many ties
      if (shape == 2) at[i] = i % 12 == 0 ? 100 + at[i] : at[i] * 1e-3f;  // seen by the sample
      if (shape == 3) at[i] = i % 997 == 3 ? 100 + at[i] : 0;             // mostly zero
      if (shape == 4) at[i] = i > kSize / 2 ? -at[i] * static_cast<float>(i) : 0;
    }
    for (const char* spec : {"top-k:0.01", "top-k:0.3", "top-k:1", "top-k:0.00001"}) {
      INFO(spec << ", shape " << shape);
      CHECK(numbers(compressed(made(spec, layout), v)) == expected(spec, numbers(v)));
    }
  }
}

TEST_CASE("random-k takes k places anew for each index and rank, each equally often") {
  constexpr size_t kSize = 40;
  const ParameterLayout layout = ParameterLayout::flat(kSize, DType::f64);
  const Compressor c = made("random-k:0.26", layout);  // 10 of 40
  CHECK(c.bytes() == 80u);
  Buffer ones(kSize, DType::f64);
  for (size_t i = 0; i < kSize; ++i)
    ones.vec().as<double>()[i] = 1;
  std::vector<double> times(kSize);
  constexpr int kDraws = 4000;
  const auto draw = [&](uint32_t rank, uint64_t index) {
    Buffer y(kSize, DType::f64);
    const auto bytes = encoded(c, ones, kCpu, rank, index);
    c.decode(kCpu, bytes.data(), rank, index, 1, y);
    return numbers(y);
  };
  for (uint64_t index = 0; index < kDraws; ++index) {
    const auto y = draw(0, index);
    CHECK(std::accumulate(y.begin(), y.end(), 0.) == 10);
    for (size_t i = 0; i < kSize; ++i)
      times[i] += y[i];
  }
  for (const double n : times)
    CHECK(std::abs(n - kDraws / 4.) < 6 * std::sqrt(kDraws * 3. / 16));
  CHECK(draw(0, 1) == draw(0, 1));
  CHECK(draw(0, 1) != draw(1, 1));
  CHECK(draw(0, 1) != draw(0, uint64_t{1} << 32 | 1));
}

TEST_CASE(
    "low rank returns a matrix of that rank, nears the best one, and sends thin tensors raw") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    ParameterLayout layout(dtype);
    layout.add("X", {40, 30}, true);
    layout.add("bias", {9}, false);
    Buffer v(layout.size(), dtype);
    const Buffer noise = random_buffer(layout.size(), dtype, 3);
    const auto set = [&](size_t i, double value) {
      if (dtype == DType::f32) {
        v.vec().as<float>()[i] = static_cast<float>(value);
      } else {
        v.vec().as<double>()[i] = value;
      }
    };
    for (const double wobble : {0., 1e-3}) {  // singular values sqrt(300) (4, 2) and some noise
      for (size_t e = 0; e < layout.size(); ++e) {
        const double i = static_cast<double>(e / 30), j = static_cast<double>(e % 30);
        const double pi = 3.14159265358979323846;
        set(e, 4 * std::cos(pi * i / 20) * std::cos(pi * j / 15) +
                   2 * std::sin(pi * i / 20) * std::sin(pi * j / 15) + wobble * element(noise, e));
      }
      const Buffer two = compressed(made("low-rank:2", layout), v);
      const Buffer one = compressed(made("low-rank:1", layout), v);
      const double left = square_left(v, two);
      CHECK(left <
            1200 * std::pow(1.2 * wobble + 200 * rounding(dtype), 2) + 1e-11);  // norms + 1e-8
      CHECK(square_left(v, one) == Approx(4 * 300).epsilon(1e-2));
      for (size_t e = 1200; e < 1209; ++e)
        CHECK(element(two, e) == element(v, e));
    }
    const Compressor high = made("low-rank:18", layout);  // (40 + 30) 18 > 1200
    CHECK(high.bytes() == layout.bytes());
    CHECK(made("low-rank:17", layout).bytes() == (70 * 17 + 9) * size_of(dtype));
    CHECK(numbers(compressed(high, v)) == numbers(v));
  }
}
