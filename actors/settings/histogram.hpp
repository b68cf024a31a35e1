// Histogram: counts of values below given bounds, in Prometheus' form, for a node and for each of a
// limited number of edges.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace grapevine {

/// Upper bounds of durations in seconds, from usual times within a machine to those of a fault.
/// Longer durations have their own bucket.
constexpr std::array<double, 15> kDurationBounds = {
    1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 5};

/// A value: the count of each bucket, not cumulative.
struct DurationCounts {
  std::array<uint64_t, kDurationBounds.size() + 1> buckets{};
  double sum_s = 0;

  DurationCounts& operator+=(const DurationCounts& more) {
    for (size_t k = 0; k < buckets.size(); ++k)
      buckets[k] += more.buckets[k];
    sum_s += more.sum_s;
    return *this;
  }
};

/// Many threads add to it, and any thread may read it.
class DurationHistogram {
 public:
  void add(double seconds) {
    const auto bound = std::lower_bound(kDurationBounds.begin(), kDurationBounds.end(), seconds);
    const auto bucket = static_cast<size_t>(bound - kDurationBounds.begin());
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_s_.fetch_add(seconds, std::memory_order_relaxed);
  }
  DurationCounts counts() const {
    DurationCounts counts;
    for (size_t k = 0; k < buckets_.size(); ++k)
      counts.buckets[k] = buckets_[k].load(std::memory_order_relaxed);
    counts.sum_s = sum_s_.load(std::memory_order_relaxed);
    return counts;
  }

 private:
  std::array<std::atomic<uint64_t>, kDurationBounds.size() + 1> buckets_{};
  std::atomic<double> sum_s_{0};
};

/// The largest number of edges: reports must not grow with the graph.
constexpr size_t kEdgesMeasured = 64;

/// The durations of an edge, the lower rank first; -1: of all edges without an own entry.
struct EdgeDurations {
  int rank = -1, peer = -1;
  DurationCounts counts;
};

/// One histogram for each edge that asks for one, while there is room, and one for all other edges.
/// Threads as above; an edge keeps its place.
class EdgeHistograms {
 public:
  void add(int rank, int peer, double seconds) {
    const auto [low, high] = std::minmax(rank, peer);
    place_of(uint64_t{static_cast<uint32_t>(low)} << 32 | static_cast<uint32_t>(high)).add(seconds);
  }
  /// The edges with counts, by rising ranks; the sum of the others comes last.
  std::vector<EdgeDurations> counts() const {
    std::vector<EdgeDurations> edges;
    for (const Place& place : places_)
      if (const uint64_t edge = place.edge.load(std::memory_order_relaxed); edge != kNobody)
        edges.push_back({static_cast<int>(edge >> 32),
                         static_cast<int>(static_cast<uint32_t>(edge)), place.durations.counts()});
    std::sort(edges.begin(), edges.end(), [](const EdgeDurations& a, const EdgeDurations& b) {
      return std::pair(a.rank, a.peer) < std::pair(b.rank, b.peer);
    });
    if (any_other_.load(std::memory_order_relaxed)) edges.push_back({-1, -1, others_.counts()});
    return edges;
  }

 private:
  static constexpr uint64_t kNobody = ~uint64_t{0};
  struct Place {
    std::atomic<uint64_t> edge{kNobody};
    DurationHistogram durations;
  };

  DurationHistogram& place_of(uint64_t edge) {
    size_t at = (edge * 0x9e3779b97f4a7c15) >> 32;
    for (size_t tried = 0; tried < kEdgesMeasured; ++tried, ++at) {
      Place& place = places_[at % kEdgesMeasured];
      uint64_t there = place.edge.load(std::memory_order_relaxed);
      if (there == kNobody && place.edge.compare_exchange_strong(there, edge)) there = edge;
      if (there == edge) return place.durations;
    }
    any_other_.store(true, std::memory_order_relaxed);
    return others_;
  }

  std::array<Place, kEdgesMeasured> places_;
  DurationHistogram others_;
  std::atomic<bool> any_other_{false};
};

}  // namespace grapevine
