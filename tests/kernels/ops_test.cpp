// Every pass against the equations of ops.hpp, written out once more, naively and in long double.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/passes.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

using Real = long double;
constexpr Execution kCpu{};

/// The expected v, x, x~ and output after a pass, element by element.
struct Expected {
  Real v, x, x_tilde, out;
};

Expected mixed(const Case& c, Expected s) {
  if (c.tilde) {
    const Real d = s.x_tilde - s.x;
    s.x += c.c * d;
    s.x_tilde -= c.c * d;
  }
  return s;
}

Expected expected(const Case& c, Real g, Real received, Expected s) {
  switch (c.pass) {
    case Case::extrapolate: s.out = mixed(c, s).x; break;
    case Case::jump:
      s = mixed(c, s);
      s.x -= c.alpha * (g - received);
      if (c.tilde) s.x_tilde -= c.alpha_tilde * (g - received);
      break;
    case Case::step: {
      s = mixed(c, s);
      const GradientStep& how = c.how;
      const Real u = g + how.weight_decay * s.x;
      const Real velocity = c.with_v ? how.momentum * s.v + u : u;
      if (c.with_v) s.v = velocity;
      const Real step = how.nesterov ? u + how.momentum * velocity : velocity;
      s.x -= how.lr * step;
      if (c.tilde) s.x_tilde -= how.lr * step;
      if (c.with_copy) s.out = s.x;
      break;
    }
    case Case::take: break;  // front and base are g and `received`: see expected_take
    case Case::axpy: s.x += c.alpha * g; break;
    case Case::scale: s.out = c.alpha * g; break;
    case Case::adam: break;  // the first moment is `received`: see expected_adam
    case Case::combine: {
      const Real streams[] = {g, received, s.v, s.x, s.x_tilde};
      Real sum = 0;
      for (int k = 0; k < c.terms; ++k)
        sum += c.factor(k) * streams[c.stream(k)];
      (c.in_place ? s.x : s.out) = sum;
      break;
    }
    case Case::rounded:
    case Case::gather:
    case Case::scatter: break;  // sentences of their own
  }
  return s;
}

Expected expected_adam(const Case& c, Real g, Real& m, Expected s) {
  s = mixed(c, s);
  const AdamStep step = c.adam_step();
  const Real decay = step.weight_decay * s.x, u = g + (step.decoupled ? 0 : decay);
  m = step.beta1 * m + (1 - Real(step.beta1)) * u;
  s.v = step.beta2 * s.v + (1 - Real(step.beta2)) * u * u;
  const Real first = m / (1 - std::pow(Real(step.beta1), 3));
  const Real second = s.v / (1 - std::pow(Real(step.beta2), 3));
  const Real d = first / (std::sqrt(second) + step.epsilon) + (step.decoupled ? decay : 0);
  s.x -= step.lr * d;
  if (c.tilde) s.x_tilde -= step.lr * d;
  if (c.with_copy) s.out = s.x;
  return s;
}

Expected expected_take(const Case& c, Real& front, Real& base, Expected s) {
  s = mixed(c, s);
  s.x += front - base;
  if (c.tilde) s.x_tilde += front - base;
  front = base = s.x;
  return s;
}

/// The largest error over all vectors, in units of the dtype's rounding of a number of size 1.
double worst_error(const Case& c, size_t size, DType dtype, size_t shift, const Execution& on) {
  const Streams before(size, dtype, shift);
  Streams after(size, dtype, shift);
  run(c, on, after);
  double worst = 0;
  for (size_t i = 0; i < size; ++i) {
    const auto at = [i](const Streams& s, int k) -> Real { return element(s.view(k), i); };
    const Expected start{at(before, 2), at(before, 3), at(before, 4), at(before, 5)};
    Real g = at(before, 0), received = at(before, 1);
    const Expected e = c.pass == Case::adam   ? expected_adam(c, g, received, start)
                       : c.pass == Case::take ? expected_take(c, g, received, start)
                                              : expected(c, g, received, start);
    const Real want[] = {g, received, e.v, e.x, e.x_tilde, e.out};
    for (int k = 0; k < Streams::kCount; ++k) {
      worst = std::max(worst, static_cast<double>(std::abs(want[k] - at(after, k))));
    }
  }
  CHECK(after.guards_intact());
  return worst / rounding(dtype);
}

bool has_sentence_of_its_own(const Case& c) {
  return c.pass == Case::rounded || c.pass == Case::gather || c.pass == Case::scatter;
}

}  // namespace

TEST_CASE("a jump by messages in bf16 is the jump by the numbers that they are") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool tilde : {true, false}) {
      constexpr size_t kSize = 1003;
      Streams in_bf16(kSize, dtype, 0), whole(kSize, dtype, 0);
      Buffer messages[2] = {{kSize, DType::bf16}, {kSize, DType::bf16}};
      for (int k = 0; k < 2; ++k) {
        const Vec message = messages[k];
        extrapolate(kCpu, 0, in_bf16.view(k), {}, message);
        for (size_t i = 0; i < kSize; ++i) {
          const uint32_t bits = uint32_t{message.as<BFloat16>()[i].bits} << 16;
          const auto number = std::bit_cast<float>(bits);
          CHECK(std::abs(number - element(in_bf16.view(k), i)) <= 0x1p-8);  // of at most 2
          if (dtype == DType::f32) whole.view(k).as<float>()[i] = number;
          if (dtype == DType::f64) whole.view(k).as<double>()[i] = static_cast<double>(number);
        }
      }
      const auto twin = [tilde](Streams& s) { return tilde ? s.view(4) : Vec(); };
      mix_and_jump(kCpu, 0.3, 0.5, 1.9, messages[0], messages[1], in_bf16.view(3), twin(in_bf16));
      mix_and_jump(kCpu, 0.3, 0.5, 1.9, whole.view(0), whole.view(1), whole.view(3), twin(whole));
      for (const int k : {3, 4})
        CHECK(numbers(in_bf16.view(k)) == numbers(whole.view(k)));
      CHECK(square_distance(kCpu, messages[0], messages[1]) ==
            square_distance(kCpu, whole.view(0), whole.view(1)));
    }
  }
}

TEST_CASE("every pass equals its equation: sizes, alignments, dtypes, optional vectors") {
  for (const Case& c : all_cases()) {
    if (has_sentence_of_its_own(c)) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const size_t size : {0, 1, 3, 17, 64, 1003}) {
        for (const size_t shift : {0, 1, 3}) {
          INFO(c.name() << " fp" << 8 * size_of(dtype) << " size " << size << " shift " << shift);
          CHECK(worst_error(c, size, dtype, shift, kCpu) < 60);
        }
      }
    }
  }
}

TEST_CASE("every pass equals its equation on a million and three elements and two threads") {
  ForkJoin pool(2);
  for (const Case& c : all_cases()) {
    if (!c.tilde || !c.with_v || !c.with_copy) continue;
    if (has_sentence_of_its_own(c)) continue;
    if (c.pass == Case::combine && c.terms != 20) continue;
    if (c.how.nesterov && c.how.weight_decay == 0) continue;
    INFO(c.name());
    CHECK(worst_error(c, 1000003, DType::f32, 1, {&pool}) < 100);
  }
}

TEST_CASE("gather takes every k-th element and scatter puts them back, and nothing else changes") {
  for (const Case& c : all_cases()) {
    if (c.pass != Case::gather && c.pass != Case::scatter) continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const size_t size : {0, 1, 2, 10, 17, 1003}) {
        const Streams before(size, dtype, 1);
        Streams after(size, dtype, 1);
        run(c, kCpu, after);
        const auto x = numbers(before.view(3));
        auto want = numbers(before.view(5));
        for (size_t k = 0; k < c.moved(size); ++k) {
          const size_t far = c.first + k * c.stride;
          c.pass == Case::gather ? want[k] = x[far] : want[far] = x[k];
        }
        INFO(c.name() << " size " << size);
        CHECK(numbers(after.view(5)) == want);
        CHECK(numbers(after.view(3)) == x);
        CHECK(after.guards_intact());
      }
    }
  }
}

TEST_CASE("a dot product and a deviation are accumulated in double, blocks and tails included") {
  for (const size_t size : {0u, 1u, 15u, 16u, 8191u, 8193u, 300007u}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Buffer x = random_buffer(size, dtype, 1), y = random_buffer(size, dtype, 2);
      const Buffer reference = random_buffer(size, DType::f64, 3);
      Buffer sum = random_buffer(size, DType::f64, 4);
      const auto before = numbers(std::as_const(sum).vec());
      Real product = 0, square = 0, magnitude = 0;
      for (size_t i = 0; i < size; ++i) {
        const Real a = element(x, i), b = element(y, i), d = a - Real(element(reference, i));
        product += a * b;
        magnitude += std::abs(a * b);
        square += d * d;
      }
      CHECK(std::abs(Real(dot(kCpu, x, y)) - product) <= 1e-14L * magnitude);
      CHECK(std::abs(Real(add_deviation(kCpu, x, reference, sum)) - square) <= 1e-14L * square);
      size_t wrong = 0;
      for (size_t i = 0; i < size; ++i) {
        wrong += element(sum, i) != before[i] + (element(x, i) - element(reference, i));
      }
      CHECK(wrong == 0);
    }
  }
  Buffer x(1003, DType::f32), y(1003, DType::f32);
  for (size_t i = 0; i < 1003; ++i)
    x.vec().as<float>()[i] = y.vec().as<float>()[i] = 1;
  x.vec().as<float>()[0] = 0x1p40f;
  CHECK(dot(kCpu, x, y) == 0x1p40 + 1002);  // in float the ones would vanish
}

namespace {

/// The sum of terms [first, last) in lanes that are added in halves.
double in_lanes(const std::vector<double>& terms, size_t first, size_t last) {
  std::vector<double> lane(32);
  for (size_t i = first; i < last; ++i)
    lane[(i - first) % lane.size()] += terms[i];
  for (; lane.size() > 1; lane.resize(lane.size() / 2))
    for (size_t l = 0; l < lane.size() / 2; ++l)
      lane[l] += lane[l + lane.size() / 2];
  return lane[0];
}

/// Each 4096 terms in lanes.
std::vector<double> by_blocks(const std::vector<double>& terms) {
  constexpr size_t kBlock = 4096;
  std::vector<double> sums;
  for (size_t i = 0; i < terms.size(); i += kBlock)
    sums.push_back(in_lanes(terms, i, std::min(terms.size(), i + kBlock)));
  return sums;
}

}  // namespace

TEST_CASE("a sum has one order: lanes of blocks, lanes of their sums, and these one by one") {
  ForkJoin pool(2);
  for (const size_t size : {1u, 33u, 4096u, 4097u, 300007u, 16800005u}) {
    const Buffer x = random_buffer(size, DType::f32, 1), y = random_buffer(size, DType::f32, 2);
    std::vector<double> terms(size);
    for (size_t i = 0; i < size; ++i)
      terms[i] = element(x, i) * element(y, i);
    double total = 0;
    for (const double row : by_blocks(by_blocks(terms)))
      total += row;
    INFO(size);
    CHECK(dot(kCpu, x, y) == total);
    CHECK(dot({&pool}, x, y) == total);
  }
}

TEST_CASE("one infinity or NaN anywhere is seen, and the largest finite number is not one") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t size : {1u, 17u, 8193u, 600001u}) {
      ForkJoin pool(2);
      const Execution on{&pool};
      Buffer x = random_buffer(size, dtype, 1);
      const auto set = [&](size_t i, double value) {
        if (dtype == DType::f32) {
          x.vec().as<float>()[i] = static_cast<float>(value);
        } else {
          x.vec().as<double>()[i] = value;
        }
      };
      set(0, dtype == DType::f32 ? double{std::numeric_limits<float>::max()}
                                 : std::numeric_limits<double>::max());
      CHECK(all_finite(on, x));
      for (const size_t i : {size_t{0}, size / 2, size - 1}) {
        for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
          const double good = element(x, i);
          set(i, bad);
          CHECK_FALSE(all_finite(on, x));
          set(i, good);
        }
      }
    }
  }
  CHECK(all_finite(kCpu, Buffer(0, DType::f32)));
}

TEST_CASE("a call with vectors of two lengths or dtypes, or without what it needs, is our bug") {
  Buffer a(10, DType::f32), b(11, DType::f32), d(10, DType::f64);
  CHECK_THAT(last_words([&] { axpy(kCpu, 1, a, b); }), Catch::Contains("11 == 10"));
  CHECK_THAT(last_words([&] { axpy(kCpu, 1, a, d); }), Catch::Contains("1 == 0"));
  CHECK_THAT(last_words([&] { axpy(kCpu, 1, a, Vec(nullptr, 10, DType::f32)); }),
             Catch::Contains("view.data != nullptr"));
  CHECK_THAT(last_words([&] {
               mix_and_step(kCpu, 0, {0.1, 0.9, false, 0}, a, {}, a, {}, {});
             }),
             Catch::Contains("step.momentum == 0"));
  CHECK_THAT(last_words([&] { combine(kCpu, {}, a); }), Catch::Contains("terms.size() >= 1u"));
  CHECK_THAT(last_words([&] { gather(kCpu, a, 1, 2, Vec(b).part(0, 6)); }),
             Catch::Contains("11 < 10"));
  CHECK_THAT(last_words([&] { adam_step(kCpu, 0, {.t = 0}, a, a, a, a, {}, {}); }),
             Catch::Contains("step.t >= 1u"));
}
