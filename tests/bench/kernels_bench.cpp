// GB/s (bytes read + written) of every fused pass, beside a bare loop over the same streams and a
// plain copy.
//
//   kernels_bench            every row, by Google Benchmark
//   kernels_bench --ratios   interleaved rounds: each times fused, bare and copy in turn and takes
//                            their ratios; printed are the medians over the rounds
//   kernels_bench --ratios --small-pages   the same with huge pages refused to this process
//   kernels_bench --forms    what a step of a guest and an exchange cost by what is kept of a rank
//                            (kernels_forms.hpp)
#include <benchmark/benchmark.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/bench/kernels_bare.hpp"
#include "tests/bench/kernels_forms.hpp"

namespace grapevine::bench {
namespace {

constexpr size_t kGrain = 8192;
constexpr size_t kSmall = 400000;    // 1.6 MB a vector
constexpr size_t kLarge = 64000000;  // 256 MB a vector

/// Five vectors of one size and the passes over them.
struct Bench {
  size_t size;
  ForkJoin pool;
  Execution on{&pool};
  Buffer g{size, DType::f32}, v{size, DType::f32}, x{size, DType::f32}, x_tilde{size, DType::f32},
      copy{size, DType::f32};

  Bench(size_t n, int threads) : size(n), pool(threads) {
    for (Buffer* b : {&g, &v, &x, &x_tilde, &copy}) {
      for (size_t i = 0; i < size; ++i) p(*b)[i] = 1.0f + 0.01f * static_cast<float>(i % 97);
    }
  }

  static float* p(Buffer& b) { return b.vec().as<float>(); }
  static uint16_t* half(Buffer& b) { return static_cast<uint16_t*>(b.vec().data); }
  static Vec rounded(Buffer& b) { return {b.vec().data, b.size(), DType::bf16}; }
  template <class Body> void split(const Body& body) { pool.run(size, kGrain, body); }
};

using Work = std::function<void(Bench&)>;

struct Row {
  const char* name;
  double words;
  Work fused, bare;
};

constexpr GradientStep kStep{1e-3, 0.9, true, 1e-4};

std::vector<Row> rows() {
  return {
      {"extrapolate", 3, [](Bench& b) { extrapolate(b.on, 0.2, b.x, b.x_tilde, b.copy); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_look(b.p(b.x), b.p(b.x_tilde), b.p(b.copy), i, n);
         });
       }},
      {"mix_and_jump", 6,
       [](Bench& b) { mix_and_jump(b.on, 0.2, 0.01, 0.02, b.g, b.v, b.x, b.x_tilde); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_jump(b.p(b.g), b.p(b.v), b.p(b.x), b.p(b.x_tilde), i, n);
         });
       }},
      {"extrapolate to bf16", 2.5,
       [](Bench& b) { extrapolate(b.on, 0.2, b.x, b.x_tilde, b.rounded(b.copy)); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_round(b.p(b.x), b.p(b.x_tilde), b.half(b.copy), i, n);
         });
       }},
      {"jump of bf16", 5,
       [](Bench& b) {
         mix_and_jump(b.on, 0.2, 0.01, 0.02, b.rounded(b.g), b.rounded(b.v), b.x, b.x_tilde);
       },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_rounded_jump(b.half(b.g), b.half(b.v), b.p(b.x), b.p(b.x_tilde), i, n);
         });
       }},
      {"jump, no x~", 4, [](Bench& b) { mix_and_jump(b.on, 0, 0.01, 0, b.g, b.v, b.x, {}); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) { bare_jump_alone(b.p(b.g), b.p(b.v), b.p(b.x), i, n); });
       }},
      {"mix_and_step", 8,
       [](Bench& b) { mix_and_step(b.on, 0.2, kStep, b.g, b.v, b.x, b.x_tilde, b.copy); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_step(b.p(b.g), b.p(b.v), b.p(b.x), b.p(b.x_tilde), b.p(b.copy), i, n);
         });
       }},
      {"step, no copy", 7,
       [](Bench& b) { mix_and_step(b.on, 0.2, kStep, b.g, b.v, b.x, b.x_tilde, {}); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_step_no_copy(b.p(b.g), b.p(b.v), b.p(b.x), b.p(b.x_tilde), i, n);
         });
       }},
      {"mix_and_take", 8, [](Bench& b) { mix_and_take(b.on, 0.2, b.g, b.v, b.x, b.x_tilde); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) {
           bare_take(b.p(b.g), b.p(b.v), b.p(b.x), b.p(b.x_tilde), i, n);
         });
       }},
      {"axpy", 3, [](Bench& b) { axpy(b.on, 1e-6, b.x, b.copy); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) { bare_axpy(b.p(b.x), b.p(b.copy), i, n); });
       }},
      {"scale", 2, [](Bench& b) { scale(b.on, 0.5, b.x, b.copy); },
       [](Bench& b) {
         b.split([&](size_t i, size_t n) { bare_scale(b.p(b.x), b.p(b.copy), i, n); });
       }},
  };
}

void copy_loop(Bench& b) {
  b.split([&](size_t i, size_t n) { bare_copy(b.p(b.g), b.p(b.copy), i, n); });
}

void copy_memcpy(Bench& b) {
  b.split([&](size_t i, size_t n) { std::memcpy(b.p(b.copy) + i, b.p(b.g) + i, 4 * (n - i)); });
}

double seconds(Bench& b, const Work& work, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < repeats; ++k) work(b);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
}

/// One size and thread count: every row's rates and ratios, as medians over interleaved rounds.
void print_ratios(size_t size, int threads) {
  Bench b(size, threads);
  const auto all = rows();
  const int repeats = size == kSmall ? 40 : 1;
  const int rounds = size == kSmall ? 21 : 9;
  struct Samples {
    std::vector<double> fused, bare, copy, to_bare, to_copy;
  };
  std::vector<Samples> samples(all.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < all.size(); ++k) {
      const double gigabytes = 4e-9 * static_cast<double>(size);
      const double fused = all[k].words * gigabytes / seconds(b, all[k].fused, repeats);
      const double bare = all[k].words * gigabytes / seconds(b, all[k].bare, repeats);
      // The better of the two ways to copy.
      const double copy = 2 * gigabytes / std::min(seconds(b, copy_loop, repeats),
                                                   seconds(b, copy_memcpy, repeats));
      samples[k].fused.push_back(fused);
      samples[k].bare.push_back(bare);
      samples[k].copy.push_back(copy);
      samples[k].to_bare.push_back(fused / bare);
      samples[k].to_copy.push_back(fused / copy);
    }
  }
  for (size_t k = 0; k < all.size(); ++k) {
    const Samples& s = samples[k];
    std::printf("%6.1f MB  %d  %-19s  %3.1f  %7.1f  %7.1f  %7.1f  %9.2f  %9.2f\n",
                4e-6 * static_cast<double>(size), threads, all[k].name, all[k].words,
                median(s.fused), median(s.bare), median(s.copy), median(s.to_bare),
                median(s.to_copy));
    std::fflush(stdout);
  }
}

void add_rows(size_t size, int threads) {
  const auto add = [=](const std::string& name, double words, const Work& work) {
    const std::string full =
        name + "/" + std::to_string(size * 4 / 100000) + "e5B/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
      Bench b(size, threads);
      for (auto _ : state) work(b);
      state.counters["GB/s"] = benchmark::Counter(
          4e-9 * words * static_cast<double>(size) * static_cast<double>(state.iterations()),
          benchmark::Counter::kIsRate);
    })->UseRealTime();
  };
  add("copy/loop", 2, copy_loop);
  add("copy/memcpy", 2, copy_memcpy);
  for (const Row& row : rows()) {
    add(std::string(row.name) + "/fused", row.words, row.fused);
    add(std::string(row.name) + "/bare", row.words, row.bare);
  }
}

}  // namespace
}  // namespace grapevine::bench

int main(int argc, char** argv) {
  using namespace grapevine::bench;
  if (argc == 2 && std::strcmp(argv[1], "--forms") == 0) return print_forms(), 0;
  const bool ratios = argc >= 2 && std::strcmp(argv[1], "--ratios") == 0;
  if (argc == 3 && std::strcmp(argv[2], "--small-pages") == 0) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  }
  if (ratios) {
    std::printf("a vector  threads  pass  words  fused GB/s  bare GB/s  copy GB/s  "
                "fused/bare  fused/copy\n");
  }
  for (const size_t size : {kSmall, kLarge}) {
    for (const int threads : {1, 2}) {
      if (ratios) {
        print_ratios(size, threads);
      } else {
        add_rows(size, threads);
      }
    }
  }
  if (ratios) return 0;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
