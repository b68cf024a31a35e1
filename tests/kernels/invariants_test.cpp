// The promises of the passes to the rules: mixing is a semigroup, sums are kept, averaging is the
// special case.
#include <cmath>
#include <cstring>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr Execution kCpu{};
constexpr size_t kSize = 1003;

double coefficient(double phase) { return -0.5 * std::expm1(-2 * phase); }

Buffer copied(const Buffer& from) {
  Buffer out(from.size(), from.dtype());
  extrapolate(kCpu, 0, from, {}, out);
  return out;
}

/// Mixing alone: a jump between two equal vectors.
void mix(double c, Buffer& x, Buffer& x_tilde) {
  const Buffer same(x.size(), x.dtype());
  mix_and_jump(kCpu, c, 0.5, 1.5, same, same, x, x_tilde);
}

double distance(const Buffer& a, const Buffer& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(element(a, i) - element(b, i)));
  }
  return worst;
}

std::vector<double> sums(const Buffer& x, const Buffer& x_tilde) {
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    out[i] = element(x, i) + element(x_tilde, i);
  return out;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("bf16 is the nearest number of 8 bits, ties to even; what is no number stays none") {
  const auto rounded = [](double value) {
    Buffer x(1, DType::f64), out(1, DType::bf16);
    x.vec().as<double>()[0] = value;
    extrapolate(kCpu, 0, x, {}, out);
    return out.vec().as<BFloat16>()[0].bits;
  };
  CHECK(rounded(0) == 0x0000);
  CHECK(rounded(-0.) == 0x8000);
  CHECK(rounded(1) == 0x3f80);
  CHECK(rounded(-2.5) == 0xc020);
  CHECK(rounded(1 + 0x1p-8) == 0x3f80);            // half-way, down to even
  CHECK(rounded(1 + 0x3p-8) == 0x3f82);            // half-way, up to even
  CHECK(rounded(1 + 0x1p-8 + 0x1p-20) == 0x3f81);  // past it
  CHECK(rounded(0x1p-133) == 0x0001);              // the smallest that there is
  CHECK(rounded(3.4e38) == 0x7f80);                // beyond the largest
  CHECK(rounded(-INFINITY) == 0xff80);
  for (const double none : {std::nan(""), -std::nan("1")}) {
    Buffer x(1, DType::f32), out(1, DType::bf16), zero(1, DType::bf16);
    x.vec().as<float>()[0] = static_cast<float>(none);
    extrapolate(kCpu, 0, x, {}, out);
    CHECK(std::isnan(square_distance(kCpu, out, zero)));
  }
  CHECK(std::isinf([] {
    Buffer x(1, DType::f64), out(1, DType::bf16), zero(1, DType::bf16);
    x.vec().as<double>()[0] = 1e39;
    extrapolate(kCpu, 0, x, {}, out);
    return square_distance(kCpu, out, zero);
  }()));
}

TEST_CASE("of two ends that exchange in bf16 one gains what the other loses") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x = random_buffer(kSize, dtype, 1), x_tilde = copied(x);
    Buffer y = random_buffer(kSize, dtype, 3), y_tilde = copied(y);
    const std::vector<double> before_x = sums(x, x_tilde), before_y = sums(y, y_tilde);
    Buffer from_x(kSize, DType::bf16), from_y(kSize, DType::bf16);
    extrapolate(kCpu, 0, x, x_tilde, from_x);
    extrapolate(kCpu, 0, y, y_tilde, from_y);
    mix_and_jump(kCpu, 0, 0.5, 1.5, from_x, from_y, x, x_tilde);
    mix_and_jump(kCpu, 0, 0.5, 1.5, from_y, from_x, y, y_tilde);
    const std::vector<double> after_x = sums(x, x_tilde), after_y = sums(y, y_tilde);
    std::vector<double> before(kSize), after(kSize);
    for (size_t i = 0; i < kSize; ++i)
      before[i] = before_x[i] + before_y[i], after[i] = after_x[i] + after_y[i];
    CHECK(distance(before, after) < 40 * rounding(dtype));
    CHECK(distance(before_x, after_x) > 1);
  }
}

TEST_CASE("mixing by two phases in turn equals mixing by their sum") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double first : {0., 0.01, 0.7, 30.}) {
      Buffer x = random_buffer(kSize, dtype, 1), x_tilde = random_buffer(kSize, dtype, 2);
      Buffer y = copied(x), y_tilde = copied(x_tilde);
      mix(coefficient(first), x, x_tilde);
      mix(coefficient(0.4), x, x_tilde);
      mix(coefficient(first + 0.4), y, y_tilde);
      CHECK(distance(x, y) < 40 * rounding(dtype));
      CHECK(distance(x_tilde, y_tilde) < 40 * rounding(dtype));
    }
  }
}

TEST_CASE("an endless phase mixes x and x~ to their mean, and no phase leaves both as they are") {
  Buffer x = random_buffer(kSize, DType::f64, 1), x_tilde = random_buffer(kSize, DType::f64, 2);
  const Buffer before = copied(x);
  mix(coefficient(0), x, x_tilde);
  CHECK(distance(x, before) == 0);
  mix(coefficient(HUGE_VAL), x, x_tilde);
  CHECK(distance(x, x_tilde) < 8 * rounding(DType::f64));
}

TEST_CASE("mixing keeps x + x~ to rounding, a thousand times over") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x = random_buffer(kSize, dtype, 1), x_tilde = random_buffer(kSize, dtype, 2);
    const auto before = sums(x, x_tilde);
    mix(0.3, x, x_tilde);
    CHECK(distance(sums(x, x_tilde), before) < 16 * rounding(dtype));
    for (int k = 0; k < 1000; ++k)
      mix(0.001, x, x_tilde);
    CHECK(distance(sums(x, x_tilde), before) < 1000 * 4 * rounding(dtype));
  }
}

TEST_CASE("what one end of an exchange gains the other loses, however old the snapshots are") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x[2], x_tilde[2], sent[2];
    std::vector<double> total(kSize);
    for (uint64_t end = 0; end < 2; ++end) {
      x[end] = random_buffer(kSize, dtype, 10 + end);
      x_tilde[end] = random_buffer(kSize, dtype, 20 + end);
      sent[end] = random_buffer(kSize, dtype, 30 + end);  // taken long ago
      const auto sum = sums(x[end], x_tilde[end]);
      for (size_t i = 0; i < kSize; ++i)
        total[i] += sum[i];
    }
    mix_and_jump(kCpu, 0.2, 0.5, 1.87, sent[0], sent[1], x[0], x_tilde[0]);
    mix_and_jump(kCpu, 0.4, 0.5, 1.87, sent[1], sent[0], x[1], x_tilde[1]);
    std::vector<double> after(kSize);
    for (const int end : {0, 1}) {
      const auto sum = sums(x[end], x_tilde[end]);
      for (size_t i = 0; i < kSize; ++i)
        after[i] += sum[i];
    }
    CHECK(distance(total, after) < 100 * rounding(dtype));
    CHECK(distance(total, std::vector<double>(kSize)) > 1);
  }
}

TEST_CASE("with x~ = x and alpha = alpha~ = 1/2 a jump is plain averaging, with x~ or without") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x = random_buffer(kSize, dtype, 1);
    const Buffer mine = copied(x), theirs = random_buffer(kSize, dtype, 2);
    Buffer x_tilde = copied(x), alone = copied(x);
    mix_and_jump(kCpu, 0.3, 0.5, 0.5, mine, theirs, x, x_tilde);
    mix_and_jump(kCpu, 0.3, 0.5, 0.5, mine, theirs, alone, {});
    CHECK(distance(x, x_tilde) == 0);
    CHECK(distance(x, alone) == 0);
    Buffer mean = copied(mine);
    axpy(kCpu, 1, theirs, mean);
    scale(kCpu, 0.5, mean, mean);  // in place
    CHECK(distance(x, mean) < 8 * rounding(dtype));
  }
}

TEST_CASE("looking ahead shows what mixing will give, bit for bit, and changes nothing") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x = random_buffer(kSize, dtype, 1), x_tilde = random_buffer(kSize, dtype, 2);
    const Buffer before = copied(x), before_tilde = copied(x_tilde);
    Buffer ahead(kSize, dtype);
    extrapolate(kCpu, 0.3, x, x_tilde, ahead);
    CHECK(distance(x, before) == 0);
    CHECK(distance(x_tilde, before_tilde) == 0);
    mix(0.3, x, x_tilde);
    CHECK(distance(x, ahead) == 0);
  }
}

TEST_CASE("a step moves x and x~ alike, and its copy is the new x") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x = random_buffer(kSize, dtype, 1), v = random_buffer(kSize, dtype, 2);
    Buffer x_tilde = copied(x), copy(kSize, dtype);
    const Buffer g = random_buffer(kSize, dtype, 3), before = copied(x);
    mix_and_step(kCpu, 0.3, {0.1, 0.9, true, 0.01}, g, v, x, x_tilde, copy);
    CHECK(distance(x, x_tilde) == 0);
    CHECK(distance(x, copy) == 0);
    CHECK(distance(x, before) > 0.01);
  }
}

TEST_CASE("what was done to the front alone is x to the bit, a zero's sign included") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool tilde : {true, false}) {
      Buffer x = random_buffer(kSize, dtype, 1), base = copied(x), x_tilde = copied(x);
      for (uint64_t step = 0; step < 3; ++step) {
        Buffer front = random_buffer(kSize, dtype, 2 + step);
        scale(kCpu, -0.0, front.vec().part(0, 40), front.vec().part(0, 40));  // of either sign
        const Buffer made = copied(front);
        CHECK(mix_and_take(kCpu, 0.3, front, base, x, tilde ? x_tilde.vec() : Vec()));
        for (Buffer* now : {&x, &front, &base})
          CHECK(std::memcmp(now->vec().data, made.vec().data, made.vec().bytes()) == 0);
        if (tilde) CHECK(std::memcmp(x_tilde.vec().data, x.vec().data, x.vec().bytes()) == 0);
      }
    }
  }
}

TEST_CASE("an element of the front that is not finite leaves its x as mixing left it, no other") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      const auto start = [dtype](uint64_t k) { return random_buffer(kSize, dtype, k); };
      Buffer x = start(1), x_tilde = start(2), base = start(3), front = start(4);
      Buffer y = start(1), y_tilde = start(2), y_base = start(3), y_front = start(4);
      for (const size_t i : {size_t{0}, kSize / 2, kSize - 1}) {
        if (dtype == DType::f32)
          front.vec().as<float>()[i] = static_cast<float>(bad);
        else
          front.vec().as<double>()[i] = bad;
        scale(kCpu, 1, base.vec().part(i, 1), y_front.vec().part(i, 1));  // as if left alone
        scale(kCpu, 1, base.vec().part(i, 1), y_base.vec().part(i, 1));
      }
      CHECK_FALSE(mix_and_take(kCpu, 0.3, front, base, x, x_tilde));
      CHECK(mix_and_take(kCpu, 0.3, y_front, y_base, y, y_tilde));
      CHECK(distance(x, y) < 8 * rounding(dtype));
      CHECK(distance(x_tilde, y_tilde) < 8 * rounding(dtype));
      CHECK(distance(front, x) == 0);
      CHECK(distance(base, x) == 0);
    }
  }
}

TEST_CASE("one number of a front that is none is told, whichever thread comes across it") {
  constexpr size_t kMany = 300007;  // above the size from which passes are split
  ForkJoin pool(3);
  for (const size_t bad : {size_t{0}, kMany / 2, kMany - 1}) {
    Buffer x = random_buffer(kMany, DType::f32, 1), front = copied(x), base = copied(x);
    CHECK(mix_and_take({&pool}, 0.3, front, base, x, {}));
    front.vec().as<float>()[bad] = std::nanf("");
    CHECK_FALSE(mix_and_take({&pool}, 0.3, front, base, x, {}));
  }
}

TEST_CASE("a step taken from a front moves x~ - x by nothing") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Buffer x = random_buffer(kSize, dtype, 1), x_tilde = random_buffer(kSize, dtype, 2);
    Buffer y = copied(x), y_tilde = copied(x_tilde);
    Buffer base = random_buffer(kSize, dtype, 3), front = random_buffer(kSize, dtype, 4);
    mix_and_take(kCpu, 0.2, front, base, x, x_tilde);
    mix(0.2, y, y_tilde);
    for (Buffer* twin : {&x_tilde, &y_tilde})
      axpy(kCpu, -1, twin == &x_tilde ? x : y, *twin);
    CHECK(distance(x_tilde, y_tilde) < 16 * rounding(dtype));
    CHECK(distance(x, y) > 1);
  }
}
