// Counters: what a node's actors count while they run. The one thing that they share: relaxed
// atomics, only ever added to, read by whoever reports. No decision of a rank depends on it.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>

#include "actors/settings/histogram.hpp"
#include "messages/frame.hpp"

namespace grapevine {

struct Counters {
  std::atomic<uint64_t> gradients{0};
  std::atomic<uint64_t> applied_ends{0};  // two for each exchange
  std::atomic<uint64_t> frames{0}, bytes{0};
  std::atomic<double> loss_sum{0};  // over `gradients`, but
  std::atomic<uint64_t> silent{0};  // those of guests that did not say theirs
  // Of the newest gradient; NaN: none yet, or the optimizers are the guests' own.
  std::atomic<double> learning_rate{std::numeric_limits<double>::quiet_NaN()};
  std::array<std::atomic<uint64_t>, kDeclineReasons> declines{};  // of offers, by reason
  EdgeHistograms edge_round_trips;                                // of offers, by edge
};

}  // namespace grapevine
