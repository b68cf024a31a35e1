// Histogram: how many of something fell below each of some bounds, as Prometheus counts it.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace grapevine {

/// Upper bounds of durations in seconds, from what goes on inside a machine to what looks like a
/// fault; what is longer has a bucket of its own.
constexpr std::array<double, 15> kDurationBounds = {
    1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 5};

/// A value: by bucket, not summed up.
struct DurationCounts {
  std::array<uint64_t, kDurationBounds.size() + 1> buckets{};
  double sum_s = 0;
};

/// Added to by many threads, read by whoever reports.
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

}  // namespace grapevine
