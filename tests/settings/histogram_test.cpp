// Histograms of edges: bounded, and nothing is lost.
#include "actors/settings/histogram.hpp"

#include <numeric>
#include <thread>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

uint64_t count_of(const DurationCounts& counts) {
  return std::accumulate(counts.buckets.begin(), counts.buckets.end(), uint64_t{0});
}

}  // namespace

TEST_CASE("an edge has one histogram, whichever of its ends adds to it") {
  EdgeHistograms edges;
  edges.add(3, 1, 0.002);
  edges.add(1, 3, 0.02);
  edges.add(0, 1, 0.5);
  const auto counts = edges.counts();
  REQUIRE(counts.size() == 2);
  CHECK((counts[0].rank == 0 && counts[0].peer == 1 && count_of(counts[0].counts) == 1));
  CHECK((counts[1].rank == 1 && counts[1].peer == 3 && count_of(counts[1].counts) == 2));
  CHECK(counts[1].counts.sum_s == Approx(0.022));
}

TEST_CASE(
    "the edges of a complete graph have 64 histograms of their own, and the rest one together") {
  constexpr int kRanks = 100, kThreads = 4;
  EdgeHistograms edges;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kRanks; ++i)
        for (int j = 0; j < i; ++j)
          edges.add(i, j, 0.001);
    });
  for (std::thread& thread : threads)
    thread.join();
  const auto counts = edges.counts();
  REQUIRE(counts.size() == kEdgesMeasured + 1);
  uint64_t sum = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    sum += count_of(counts[k].counts);
    if (k < kEdgesMeasured) CHECK(count_of(counts[k].counts) == kThreads);
  }
  CHECK(counts.back().rank == -1);
  CHECK(sum == kThreads * kRanks * (kRanks - 1) / 2);
}
