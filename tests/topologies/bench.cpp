// The cost of graphs and their spectra. Rates are those of the spec, or each times a random factor
// ("uneven"), for which there are no closed forms.
#include <benchmark/benchmark.h>

#include "kernels/base/random.hpp"
#include "topologies/spectrum.hpp"

using namespace grapevine;

namespace {

void make(benchmark::State& state, const char* spec, int ranks) {
  for (auto _ : state) benchmark::DoNotOptimize(make_topology(spec, ranks, 1));
}

void even(benchmark::State& state, const char* spec, int ranks) {
  const Topology graph = *make_topology(spec, ranks, 1);
  for (auto _ : state) benchmark::DoNotOptimize(spectrum(graph));
}

void uneven(benchmark::State& state, const char* spec, int ranks) {
  const Topology graph = *make_topology(spec, ranks, 1);
  Random random(1, 0, Purpose::test);
  std::vector<double> rates;
  for (const Edge& edge : graph.edges()) rates.push_back(edge.rate * random.uniform(0.5, 2));
  for (auto _ : state) benchmark::DoNotOptimize(spectrum(graph, rates));
}

void colour(benchmark::State& state, const char* spec, int ranks) {
  const Topology graph = *make_topology(spec, ranks, 1);
  for (auto _ : state) benchmark::DoNotOptimize(edge_colouring(graph));
}

}  // namespace

#define GRAPH_BENCHMARK(what, name, spec, ranks) \
  BENCHMARK_CAPTURE(what, name, spec, ranks)->Unit(benchmark::kMillisecond)

GRAPH_BENCHMARK(make, ring_100000, "ring", 100000);
GRAPH_BENCHMARK(make, random_regular_100000, "random-regular", 100000);
GRAPH_BENCHMARK(make, complete_1024, "complete", 1024);
GRAPH_BENCHMARK(colour, ring_100000, "ring", 100000);
GRAPH_BENCHMARK(colour, star_100000, "star", 100000);
GRAPH_BENCHMARK(even, ring_64, "ring", 64);
GRAPH_BENCHMARK(even, exponential_64, "exponential", 64);
GRAPH_BENCHMARK(even, ring_100000, "ring", 100000);
GRAPH_BENCHMARK(even, exponential_16384, "exponential", 16384);
GRAPH_BENCHMARK(uneven, ring_64, "ring", 64);
GRAPH_BENCHMARK(uneven, exponential_64, "exponential", 64);
GRAPH_BENCHMARK(uneven, complete_64, "complete", 64);
GRAPH_BENCHMARK(uneven, ring_512, "ring", 512);
GRAPH_BENCHMARK(uneven, ring_16384, "ring", 16384);
GRAPH_BENCHMARK(uneven, torus_16384, "torus", 16384);
GRAPH_BENCHMARK(uneven, exponential_1024, "exponential", 1024);
GRAPH_BENCHMARK(uneven, random_regular_4096, "random-regular", 4096);

BENCHMARK_MAIN();
