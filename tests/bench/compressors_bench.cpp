// GB/s of the passes over matrices and of the compressors, beside a plain copy in the same round.
//
//   compressors_bench [MEGABYTES]   default 64
//
// A square fp32 matrix in one thread. GB/s are the bytes of the vectors that must be read and
// written once (a copy: 2 words a number; encode: 1; decode: 2; the factors and the encoded bytes
// are not counted). Printed are medians over interleaved rounds; the last column is the median of
// the ratios to that round's copy.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/random.hpp"
#include "kernels/codecs/compressor.hpp"
#include "kernels/passes/low_rank.hpp"
#include "kernels/passes/moniqua.hpp"

namespace grapevine::bench {
namespace {

constexpr Execution kCpu{};

struct Row {
  std::string name;
  double words;  // per number of the vector
  std::function<void()> work;
};

/// The vectors that all rows share, all of one size.
struct Vectors {
  size_t side;
  size_t size = side * side;
  Buffer x{size, DType::f32}, y{size, DType::f32}, g{size, DType::f32}, m{size, DType::f32},
      v{size, DType::f32}, x_tilde{size, DType::f32}, p{4 * side, DType::f32},
      q{4 * side, DType::f32};
  std::vector<std::byte> bytes = std::vector<std::byte>(4 * size);

  explicit Vectors(size_t n) : side(n) {
    uint64_t stream = 0;
    for (Buffer* b : {&x, &y, &g, &x_tilde, &p, &q}) {
      Random random(1, 0, Purpose::test, ++stream);
      for (size_t i = 0; i < b->size(); ++i) {  // nearly normal: the tails of a gradient
        const double sum = random.uniform() + random.uniform() + random.uniform();
        b->vec().as<float>()[i] = static_cast<float>(sum - 1.5);
      }
    }
  }
};

void add_passes(Vectors& s, std::vector<Row>& rows) {
  rows.push_back({"combine of 3", 4, [&s] {
                    const Term terms[] = {{0.3, s.x}, {0.3, s.g}, {0.4, s.x_tilde}};
                    combine(kCpu, terms, s.y);
                  }});
  rows.push_back({"combine of 3, in place", 4, [&s] {
                    const Term terms[] = {{0.3, s.x}, {0.3, s.g}, {0.4, s.y}};
                    combine(kCpu, terms, s.y);
                  }});
  rows.push_back(
      {"combine of 5", 6, [&s] {
         const Term terms[] = {{0.2, s.x}, {0.2, s.g}, {0.2, s.x_tilde}, {0.2, s.m}, {0.2, s.v}};
         combine(kCpu, terms, s.y);
       }});
  rows.push_back({"adam_step, x~, copy", 10, [&s] {
                    adam_step(kCpu, 0.1, {.lr = 1e-4}, s.g, s.m, s.v, s.x, s.x_tilde, s.y);
                  }});
  rows.push_back({"gather of every 2nd", 1.5,
                  [&s] { gather(kCpu, s.x, 1, 2, s.y.vec().part(0, s.size / 2)); }});
  rows.push_back({"scatter to every 2nd", 2.5,
                  [&s] { scatter(kCpu, Vec(s.x.vec().part(0, s.size / 2)), 1, 2, s.y); }});
}

void add_low_rank_passes(Vectors& s, std::vector<Row>& rows) {
  for (const size_t rank : {1, 2, 4}) {
    const LowRank shape{s.side, s.side, rank};
    const std::string r = ", rank " + std::to_string(rank);
    const Vec p = s.p.vec().part(0, s.side * rank), q = s.q.vec().part(0, s.side * rank);
    rows.push_back({"times" + r, 1, [=, &s] { times(kCpu, shape, s.x, q, p); }});
    rows.push_back(
        {"transposed_times" + r, 1, [=, &s] { transposed_times(kCpu, shape, s.x, p, q); }});
    rows.push_back(
        {"add_low_rank" + r, 2, [=, &s] { add_low_rank(kCpu, shape, 1e-9, p, q, s.y); }});
    rows.push_back({"mix_and_add_low_rank" + r, 4, [=, &s] {
                      mix_and_add_low_rank(kCpu, shape, 0.1, 1e-9, 2e-9, p, q, s.y, s.x_tilde);
                    }});
  }
}

void add_compressors(Vectors& s, std::vector<Row>& rows) {
  ParameterLayout layout(DType::f32);
  const auto side = static_cast<int64_t>(s.side);
  layout.add("X", {side, side}, true);
  for (const char* spec :
       {"identity", "sign", "quantise:2", "quantise:4", "quantise:8", "quantise:11", "top-k:0.01",
        "top-k:0.001", "random-k:0.01", "low-rank:1", "low-rank:4"}) {
    const Compressor c = *Compressor::make(spec, layout);
    const auto bytes = std::make_shared<std::vector<std::byte>>(c.bytes());
    rows.push_back(
        {std::string("encode ") + spec, 1, [=, &s] { c.encode(kCpu, s.g, 0, 0, bytes->data()); }});
    rows.push_back({std::string("decode ") + spec, 2,
                    [=, &s] { c.decode(kCpu, bytes->data(), 0, 0, 1e-9, s.y); }});
  }
  rows.push_back(
      {"moniqua_encode", 1, [&s] { moniqua_encode(kCpu, 0.5, 1, 0, 0, s.g, s.bytes.data()); }});
  rows.push_back({"moniqua_add", 3, [&s] {
                    moniqua_add(kCpu, 0.5, 1e-9, s.g, s.bytes.data(), s.bytes.data(), s.y);
                  }});
}

double now_s() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Of this thread, so that what it waits for a processor does not count.
double seconds(const Row& row) {
  const double start_s = now_s();
  row.work();
  return now_s() - start_s;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(const std::vector<Row>& rows, size_t size) {
  constexpr int kRounds = 11;
  const Row& copy = rows[0];
  std::vector<std::vector<double>> rates(rows.size()), ratios(rows.size());
  for (int round = -1; round < kRounds; ++round) {  // the first is a warm-up
    for (size_t k = 0; k < rows.size(); ++k) {
      const double gigabytes = 4e-9 * static_cast<double>(size);
      const double copied = copy.words * gigabytes / seconds(copy);
      const double rate = rows[k].words * gigabytes / seconds(rows[k]);
      if (round < 0) continue;
      rates[k].push_back(rate);
      ratios[k].push_back(rates[k].back() / copied);
    }
  }
  std::printf("%-32s  words     GB/s  of the copy\n", "");
  for (size_t k = 0; k < rows.size(); ++k) {
    std::printf("%-32s  %5.1f  %7.1f  %11.2f\n", rows[k].name.c_str(), rows[k].words,
                median(rates[k]), median(ratios[k]));
  }
}

/// Nanoseconds of a call on 10 numbers: what the small problems pay.
void measure_short() {
  constexpr size_t kSize = 10;
  constexpr int kCalls = 1000000;
  Buffer a(kSize, DType::f64), b(kSize, DType::f64), c(kSize, DType::f64), v(kSize, DType::f64);
  const Term terms[] = {{0.3, a}, {0.3, b}, {0.4, c}};
  const auto nanoseconds = [](const char* name, const auto& work) {
    std::vector<double> rounds;
    for (int round = 0; round < 5; ++round) {
      rounds.push_back(1e9 / kCalls * seconds({"", 0, [&] {
                                                 for (int k = 0; k < kCalls; ++k)
                                                   work();
                                               }}));
    }
    std::printf("%-32s  %6.1f ns\n", name, median(rounds));
  };
  std::printf("\n10 numbers of fp64\n");
  nanoseconds("combine of 3", [&] { combine(kCpu, terms, a); });
  nanoseconds("adam_step", [&] { adam_step(kCpu, 0, {.lr = 1e-4}, b, c, v, a, {}, {}); });
  nanoseconds("gather of every 2nd", [&] { gather(kCpu, a, 0, 2, b.vec().part(0, 5)); });
  nanoseconds("axpy", [&] { axpy(kCpu, 1e-9, b, a); });
  nanoseconds("mix_and_jump", [&] { mix_and_jump(kCpu, 0.1, 0.5, 1.1, b, c, a, v); });
}

}  // namespace
}  // namespace grapevine::bench

int main(int argc, char** argv) {
  using namespace grapevine;
  using namespace grapevine::bench;
  const double megabytes = argc > 1 ? std::atof(argv[1]) : 64;
  Vectors s(static_cast<size_t>(std::sqrt(megabytes * 250000)));
  std::printf("%zu x %zu, fp32, one thread\n", s.side, s.side);
  std::vector<Row> rows = {{"copy", 2, [&s] { extrapolate({}, 0, s.g, {}, s.y); }}};
  add_passes(s, rows);
  add_low_rank_passes(s, rows);
  add_compressors(s, rows);
  measure(rows, s.size);
  measure_short();
  return 0;
}
