// One training step: the objective's gradient with a fused update beside the bare loops.
//
// Arguments of each row: width (16: cnn-small, 32: cnn-big) and batch. Needs Fashion-MNIST where
// its package puts it.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <vector>

#include "kernels/ops.hpp"
#include "models/heap.hpp"
#include "models/objective.hpp"
#include "tests/bench/bare_loops.hpp"

namespace grapevine {
namespace {

using bench::Order;
using bench::Update;

void bare(benchmark::State& state, Update update, Order order) {
  const auto loop = bench::make_bare_loop(static_cast<int>(state.range(0)),
                                          static_cast<int>(state.range(1)), update, order);
  for (auto _ : state) benchmark::DoNotOptimize(loop->step());
}

void objective(benchmark::State& state) {
  ObjectiveSpec spec;
  spec.model = state.range(0) == 16 ? "cnn-small" : "cnn-big";
  spec.batch = static_cast<int>(state.range(1));
  const auto made = make_objective(spec);
  if (!made) {
    state.SkipWithError(made.error().message.c_str());
    return;
  }
  Objective& network = **made;
  const size_t size = network.layout().size();
  Buffer x(size, DType::f32), g(size, DType::f32), v(size, DType::f32);
  network.initial_point(0, x);
  const GradientStep step{1e-3, 0.9, false, 5e-4};
  uint64_t index = 0;
  for (auto _ : state) {
    network.gradient(0, 0, index++, x.vec(), g);
    mix_and_step({}, 0, step, g.vec(), v, x, {}, {});
  }
}

void shapes(benchmark::internal::Benchmark* rows) {
  rows->Args({16, 16})->Args({32, 32})->Unit(benchmark::kMillisecond);
}

BENCHMARK(objective)->Apply(shapes);
BENCHMARK_CAPTURE(bare, fused, Update::fused, Order::channels_last)->Apply(shapes);
BENCHMARK_CAPTURE(bare, torch_sgd, Update::torch_sgd, Order::channels_last)->Apply(shapes);
BENCHMARK_CAPTURE(bare, plain_layout, Update::torch_sgd, Order::plain)->Apply(shapes);

}  // namespace
}  // namespace grapevine

int main(int argc, char** argv) {
  grapevine::prepare_heap();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
