// Counters: the counts of a node's actors during a run. They are the only data that the actors
// share: relaxed atomics that are only added to and that reports read. No decision of a rank
// depends on them.
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
  // The largest of the first few; NaN: none yet.
  std::atomic<double> first_loss{std::numeric_limits<double>::quiet_NaN()};
  std::atomic<uint32_t> losses{0};  // told so far, up to that few
  // Of the newest gradient; NaN: none yet, or the optimizers are the guests' own.
  std::atomic<double> learning_rate{std::numeric_limits<double>::quiet_NaN()};
  std::atomic<double> progress{std::numeric_limits<double>::quiet_NaN()};  // RunSample's
  std::array<std::atomic<uint64_t>, kDeclineReasons> declines{};           // of offers, by reason
  EdgeHistograms edge_round_trips;                                         // of offers, by edge

  void add_loss(double loss) {
    constexpr uint32_t kFew = 16;
    loss_sum.fetch_add(loss, std::memory_order_relaxed);
    if (losses.load(std::memory_order_relaxed) >= kFew) return;
    losses.fetch_add(1, std::memory_order_relaxed);
    double known = first_loss.load(std::memory_order_relaxed);
    while (!(known >= loss) &&
           !first_loss.compare_exchange_weak(known, loss, std::memory_order_relaxed)) {
    }
  }
};

}  // namespace grapevine
