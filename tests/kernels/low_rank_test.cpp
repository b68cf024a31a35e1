// The low-rank passes against naive loops in long double, and PowerGossip made of them against its
// dense equations.
#include "kernels/passes/low_rank.hpp"

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

/// X, x~, P and Q of one shape, each `shift` elements past alignment.
struct Matrices {
  LowRank shape;
  DType dtype;
  size_t shift;
  Buffer x_memory, tilde_memory, p_memory, q_memory;

  Matrices(LowRank s, DType type, size_t shift_by = 0) : shape(s), dtype(type), shift(shift_by) {
    x_memory = random_buffer(s.rows * s.columns + shift, type, 1);
    tilde_memory = random_buffer(s.rows * s.columns + shift, type, 2);
    p_memory = random_buffer(s.rows * s.rank + shift, type, 3);
    q_memory = random_buffer(s.columns * s.rank + shift, type, 4);
  }
  Vec x() { return x_memory.vec().part(shift, shape.rows * shape.columns); }
  Vec x_tilde() { return tilde_memory.vec().part(shift, shape.rows * shape.columns); }
  Vec p() { return p_memory.vec().part(shift, shape.rows * shape.rank); }
  Vec q() { return q_memory.vec().part(shift, shape.columns * shape.rank); }
};

const std::vector<LowRank> kShapes = {{1, 1, 1},    {1, 7, 2},   {6, 5, 1},     {5, 3, 3},
                                      {16, 27, 4},  {33, 64, 5}, {64, 129, 2},  {130, 40, 9},
                                      {3, 1500, 1}, {70, 31, 3}, {10, 1030, 4}, {257, 9, 1}};

/// The largest error of `got` against want(i, error bound's magnitude), in units of rounding.
template <class Want>
double worst_error(const Vec& got, const Want& want) {
  double worst = 0;
  for (size_t i = 0; i < got.size; ++i) {
    Real magnitude = 1;
    const Real value = want(i, magnitude);
    const double off = static_cast<double>(std::abs(value - Real(element(got, i))) / magnitude);
    worst = std::max(worst, off);
  }
  return worst / rounding(got.dtype);
}

bool same_bits(const ConstVec& a, const ConstVec& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data, b.data, a.bytes()) == 0;
}

/// All four passes in turn, so that every view has been written.
void run_all(Matrices& m, const Execution& on) {
  orthonormalise(on, m.shape.columns, m.shape.rank, m.q());
  times(on, m.shape, m.x(), m.q(), m.p());
  mix_and_add_low_rank(on, m.shape, 0.3, -0.5, 0.7, m.p(), m.q(), m.x(), m.x_tilde());
  transposed_times(on, m.shape, m.x(), m.p(), m.q());
}

}  // namespace

TEST_CASE("X Q and X^T P equal their sums: shapes, ranks, alignments, dtypes") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank& s : kShapes) {
      for (const size_t shift : {0, 1, 3}) {
        INFO(s.rows << " x " << s.columns << " rank " << s.rank << " shift " << shift);
        Matrices m(s, dtype, shift);
        const auto x = numbers(m.x()), p = numbers(m.p()), q = numbers(m.q());
        times(kCpu, s, m.x(), m.q(), m.p());
        CHECK(worst_error(m.p(), [&](size_t at, Real& magnitude) {
                Real sum = 0;
                for (size_t j = 0; j < s.columns; ++j) {
                  const Real term =
                      Real(x[at % s.rows * s.columns + j]) * q[at / s.rows * s.columns + j];
                  sum += term;
                  magnitude += std::abs(term);
                }
                return sum;
              }) < 20);
        transposed_times(kCpu, s, m.x(), m.p(), m.q());
        const auto ours = numbers(m.p());
        CHECK(worst_error(m.q(), [&](size_t at, Real& magnitude) {
                Real sum = 0;
                for (size_t i = 0; i < s.rows; ++i) {
                  const Real term =
                      Real(x[i * s.columns + at % s.columns]) * ours[at / s.columns * s.rows + i];
                  sum += term;
                  magnitude += std::abs(term);
                }
                return sum;
              }) < 20);
      }
    }
  }
}

TEST_CASE("the low-rank jump mixes once and moves x and x~ by multiples of P Q^T") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank& s : kShapes) {
      for (const bool tilde : {true, false}) {
        for (const size_t shift : {0, 3}) {
          INFO(s.rows << " x " << s.columns << " rank " << s.rank << " x~ " << tilde);
          Matrices m(s, dtype, shift);
          const auto x = numbers(m.x()), twin = numbers(m.x_tilde()), p = numbers(m.p()),
                     q = numbers(m.q());
          mix_and_add_low_rank(kCpu, s, 0.3, -0.5, 0.7, m.p(), m.q(), m.x(),
                               tilde ? m.x_tilde() : Vec());
          const auto jump = [&](size_t at) {
            Real sum = 0;
            for (size_t k = 0; k < s.rank; ++k) {
              sum += Real(p[k * s.rows + at / s.columns]) * q[k * s.columns + at % s.columns];
            }
            return sum;
          };
          CHECK(worst_error(m.x(), [&](size_t at, Real&) {
                  return x[at] + (tilde ? 0.3L * (Real(twin[at]) - x[at]) : 0) - 0.5L * jump(at);
                }) < 60);
          CHECK(worst_error(m.x_tilde(), [&](size_t at, Real&) {
                  return tilde ? twin[at] - 0.3L * (Real(twin[at]) - x[at]) + 0.7L * jump(at)
                               : Real(twin[at]);
                }) < 60);
          Matrices alone(s, dtype, shift), same(s, dtype, shift);
          add_low_rank(kCpu, s, -0.5, alone.p(), alone.q(), alone.x());
          mix_and_add_low_rank(kCpu, s, 0, -0.5, 0, same.p(), same.q(), same.x(), same.x_tilde());
          CHECK(same_bits(alone.x(), same.x()));
        }
      }
    }
  }
}

TEST_CASE("orthonormalised columns are orthonormal and span what they spanned") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t rows : {4, 5, 63, 64, 65, 1003}) {
      Matrices m({rows, 1, 4}, dtype, 1);
      const auto before = numbers(m.p());
      orthonormalise(kCpu, rows, 4, m.p());
      const auto after = numbers(m.p());
      const auto product = [&](const std::vector<double>& a, size_t k, const std::vector<double>& b,
                               size_t l) {
        Real sum = 0;
        for (size_t i = 0; i < rows; ++i)
          sum += Real(a[k * rows + i]) * b[l * rows + i];
        return static_cast<double>(sum);
      };
      for (size_t k = 0; k < 4; ++k) {
        for (size_t l = 0; l < 4; ++l) {
          CHECK(std::abs(product(after, k, after, l) - (k == l ? 1 : 0)) <
                1e-7 + 2e4 * rounding(dtype));
        }
        double squares = product(before, k, before, k);  // all of it lies in the first k + 1
        for (size_t l = 0; l <= k; ++l)
          squares -= std::pow(product(before, k, after, l), 2);
        CHECK(std::abs(squares) < 1e-4);
      }
    }
  }
}

TEST_CASE("a column is divided by its norm + 1e-8, so a zero column stays zero") {
  Buffer factor(6, DType::f64);
  double* at = factor.vec().as<double>();
  at[0] = 3e-8, at[1] = 4e-8;
  orthonormalise(kCpu, 3, 2, factor);
  CHECK(at[0] == Approx(3. / 6).epsilon(1e-12));
  CHECK(at[1] == Approx(4. / 6).epsilon(1e-12));
  for (int i = 2; i < 6; ++i)
    CHECK(at[i] == 0);
}

TEST_CASE("the low-rank passes give the same bits on any number of threads") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank s : {LowRank{601, 1003, 1}, LowRank{300, 2050, 6}, LowRank{90000, 5, 2}}) {
      Matrices one(s, dtype, 1);
      run_all(one, kCpu);
      for (const int threads : {2, 3}) {
        ForkJoin pool(threads);
        Matrices many(s, dtype, 1);
        run_all(many, {&pool});
        CHECK(same_bits(one.x(), many.x()));
        CHECK(same_bits(one.x_tilde(), many.x_tilde()));
        CHECK(same_bits(one.p(), many.p()));
        CHECK(same_bits(one.q(), many.q()));
      }
    }
  }
}

TEST_CASE("every build that this processor runs gives the same bits of the low-rank passes") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank& s : kShapes) {
      if (s.rank > kMostThin) continue;
      const bool wide = dtype == DType::f64;
      std::vector<Matrices> results;
      for (const CpuBuild* const* build = cpu_builds(); *build != nullptr; ++build) {
        results.emplace_back(s, dtype, 1);
        Matrices& m = results.back();
        const LowRankBuild& low_rank = (*build)->low_rank;
        low_rank.orthonormalise(wide, s.columns, s.rank, m.q().data);
        low_rank.times(wide, {s.rows, s.columns, s.rank, m.x().data, m.q().data, m.p().data}, 0,
                       s.rows);
        low_rank.add(wide,
                     {s.rows, s.columns, s.rank, 0.3, -0.5, 0.7, m.p().data, m.q().data, m.x().data,
                      m.x_tilde().data},
                     0, s.rows);
        low_rank.transposed_times(
            wide, {s.rows, s.columns, s.rank, m.x().data, m.p().data, m.q().data}, 0, s.columns);
        CHECK(same_bits(results.front().x(), m.x()));
        CHECK(same_bits(results.front().x_tilde(), m.x_tilde()));
        CHECK(same_bits(results.front().p(), m.p()));
        CHECK(same_bits(results.front().q(), m.q()));
      }
    }
  }
}

TEST_CASE("a factor of another length than its shape says is our bug") {
  Matrices m({6, 5, 2}, DType::f64);
  CHECK_THAT(last_words([&] {
               times(kCpu, {6, 5, 1}, m.x(), m.q(), m.p());
             }),
             Catch::Contains("12 == 6"));
  CHECK_THAT(last_words([&] {
               times(kCpu, {5, 5, 2}, m.x(), m.q(), m.p());
             }),
             Catch::Contains("30 == 25"));
}
